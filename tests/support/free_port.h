// Ports for servers that tests start.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace penstock::test {

inline sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// Returns a port of the loopback interface that is free at the moment. It is below the ports that
/// the system gives to outgoing connections (ip_local_port_range). Otherwise a server that starts a
/// little later, or again, could find its port taken by a connection, even by one to itself.
inline int free_port() {
  std::random_device random;
  std::uniform_int_distribution<int> ports(10000, 31999);
  for (int tries = 0; tries < 1000; ++tries) {
    const int port = ports(random);
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(port);
    const bool free = ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    ::close(fd);
    if (free) return port;
  }
  throw std::runtime_error("no port is free");
}

/// True once a server listens on the port; false after 20 seconds.
inline bool listens(int port) {
  for (int i = 0; i < 2000; ++i) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(port);
    const bool open =
        ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    ::close(fd);
    if (open) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace penstock::test
