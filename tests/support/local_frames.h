// Unix sockets with abstract names, and descriptors that go through them, for tests that speak to a
// worker as a process that is no run.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include <sys/socket.h>
#include <sys/un.h>

namespace penstock::test {

/// The first four bytes of each frame (pipeline/remote/local_stream.cpp).
inline constexpr std::uint32_t kMagicOfFrames = 0x31'6b'74'53;

/// Returns the address of the Unix socket of the worker at "host:port", and its size.
inline std::pair<sockaddr_un, socklen_t> local_socket_of(const std::string& address) {
  const std::string name = "penstock-worker@" + address;
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  std::memcpy(at.sun_path + 1, name.data(), name.size());
  return {at, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

/// Sends bytes with a descriptor. Returns false if the socket does not take them.
inline bool send_with_descriptor(int socket, std::span<const std::byte> bytes, int descriptor) {
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const right = CMSG_FIRSTHDR(&message);
  right->cmsg_level = SOL_SOCKET;
  right->cmsg_type = SCM_RIGHTS;
  right->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(right), &descriptor, sizeof descriptor);
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) > 0;
}

}  // namespace penstock::test
