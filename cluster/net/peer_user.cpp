#include "cluster/net/peer_user.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <penstock/internal/posix.h>

namespace penstock::cluster {
namespace {

constexpr std::uint32_t kUnmapped = 65'534;  // a user of another namespace

struct End {
  std::uint16_t port = 0;  // in network order
  std::uint32_t address[4] = {};
};

bool end_of(const sockaddr_storage& from, End& end) noexcept {
  if (from.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(from);
    end.port = v4.sin_port;
    end.address[0] = v4.sin_addr.s_addr;
    return true;
  }
  if (from.ss_family != AF_INET6) return false;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(from);
  end.port = v6.sin6_port;
  std::memcpy(end.address, &v6.sin6_addr, sizeof end.address);
  return true;
}

}  // namespace

// Asks the kernel for the socket whose local end is this connection's other end.
bool is_of_another_user(int fd) noexcept {
  sockaddr_storage own{}, peer{};
  socklen_t own_size = sizeof own, peer_size = sizeof peer;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) != 0 ||
      ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0)
    return false;
  End source, target;
  if (!end_of(peer, source) || !end_of(own, target)) return false;
  struct {
    nlmsghdr head;
    inet_diag_req_v2 wanted;
  } request{};
  request.head.nlmsg_len = sizeof request;
  request.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.head.nlmsg_flags = NLM_F_REQUEST;
  request.wanted.sdiag_family = static_cast<std::uint8_t>(peer.ss_family);
  request.wanted.sdiag_protocol = IPPROTO_TCP;
  request.wanted.idiag_states = ~0U;
  request.wanted.id.idiag_sport = source.port;
  request.wanted.id.idiag_dport = target.port;
  std::copy_n(source.address, 4, request.wanted.id.idiag_src);
  std::copy_n(target.address, 4, request.wanted.id.idiag_dst);
  request.wanted.id.idiag_cookie[0] = request.wanted.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  const UniqueFd netlink(
      ::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG));
  if (!netlink || ::send(netlink.get(), &request, sizeof request, 0) != sizeof request)
    return false;
  // The kernel has answered when send(2) returns.
  alignas(nlmsghdr) char answer[4096];
  const ssize_t size = ::recv(netlink.get(), answer, sizeof answer, 0);
  const auto* const head = reinterpret_cast<const nlmsghdr*>(answer);
  if (size < static_cast<ssize_t>(sizeof(nlmsghdr) + sizeof(inet_diag_msg)) ||
      head->nlmsg_type != SOCK_DIAG_BY_FAMILY)
    return false;
  const auto* const found = reinterpret_cast<const inet_diag_msg*>(NLMSG_DATA(head));
  const std::uint32_t user = found->idiag_uid;
  return user != 0 && user != kUnmapped && user != ::geteuid();
}

}  // namespace penstock::cluster
