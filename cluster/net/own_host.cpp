#include "cluster/net/own_host.h"

#include <memory>

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

namespace penstock::cluster {
namespace {

/// Returns the host in "grpc://host:port", "etcd://host:port,…" or "host:port"; keeps IPv6
/// brackets.
std::string host_of(const std::string& url) {
  const std::size_t scheme = url.find("://");
  const std::string first = (scheme == std::string::npos ? url : url.substr(scheme + 3));
  const std::string address = first.substr(0, first.find_first_of(",/"));
  return address.substr(0, address.rfind(':'));
}

/// Returns this host's source address for packets to `host`. No packet is sent.
std::string address_towards(std::string host) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return "127.0.0.1";
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, freeaddrinfo);
  const int socket_to = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  char text[NI_MAXHOST] = "127.0.0.1";
  if (socket_to >= 0 && connect(socket_to, found->ai_addr, found->ai_addrlen) == 0 &&
      getsockname(socket_to, reinterpret_cast<sockaddr*>(&own), &size) == 0)
    getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text, nullptr, 0,
                NI_NUMERICHOST);
  if (socket_to >= 0) ::close(socket_to);
  return own.ss_family == AF_INET6 ? "[" + std::string(text) + "]" : text;
}

}  // namespace

std::string own_host(const Cluster& cluster) {
  for (const Peer& peer : cluster.peers)
    if (peer.role == cluster.role && peer.index == cluster.index && !peer.address.empty())
      return host_of(peer.address);
  return address_towards(host_of(cluster.rendezvous));
}

}  // namespace penstock::cluster
