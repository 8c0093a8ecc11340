// Addresses that are not of the public internet.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace penstock::http {

/// Returns true for loopback, link-local, private and unspecified addresses (RFC 6890), and those
/// that contain one of them. IPv4: in the order of the network.
inline bool is_private_v4(std::span<const std::uint8_t, 4> address) noexcept {
  struct Block {
    std::uint32_t first;
    int bits;
  };
  constexpr Block kBlocks[] = {
      {0x00000000, 8},   // this network
      {0x0a000000, 8},   // private
      {0x64400000, 10},  // of carriers
      {0x7f000000, 8},   // loopback
      {0xa9fe0000, 16},  // link-local, with the services of clouds for credentials
      {0xac100000, 12},  // private
      {0xc0000000, 24},  // protocols
      {0xc0a80000, 16},  // private
  };
  const std::uint32_t value = std::uint32_t{address[0]} << 24 | std::uint32_t{address[1]} << 16 |
                              std::uint32_t{address[2]} << 8 | address[3];
  return std::ranges::any_of(
      kBlocks, [&](const Block& block) { return (value ^ block.first) >> (32 - block.bits) == 0; });
}

inline bool is_private_v6(std::span<const std::uint8_t, 16> address) noexcept {
  const auto begins = [&](std::initializer_list<std::uint8_t> with) {
    return std::equal(with.begin(), with.end(), address.begin());
  };
  const auto holds_v4 = [&](std::size_t at) {
    return is_private_v4(std::span<const std::uint8_t, 4>(address.data() + at, 4));
  };
  constexpr std::array<std::uint8_t, 12> kZeros{};
  if (std::equal(kZeros.begin(), kZeros.end(), address.begin())) return true;  // ::, ::1, ::a.b.c.d
  if (begins({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff})) return holds_v4(12);
  if (begins({0, 0x64, 0xff, 0x9b})) return holds_v4(12);      // translated to IPv4
  if (begins({0x20, 0x02})) return holds_v4(2);                // 6to4
  return (address[0] & 0xfe) == 0xfc ||                        // unique local
         (address[0] == 0xfe && (address[1] & 0x80) == 0x80);  // link- and site-local
}

inline bool is_private(const sockaddr& address) noexcept {
  if (address.sa_family == AF_INET) {
    std::array<std::uint8_t, 4> bytes;
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
    return is_private_v4(bytes);
  }
  if (address.sa_family == AF_INET6) {
    std::array<std::uint8_t, 16> bytes;
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, 16);
    return is_private_v6(bytes);
  }
  return true;  // of this machine
}

/// Returns true if a URL's host, in small letters, is such an address or a name of this machine.
/// Other names have to be resolved first.
inline bool is_private_host(std::string_view host) noexcept try {
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  while (host.ends_with('.')) host.remove_suffix(1);
  const std::string name(host.substr(0, host.find('%')));
  std::array<std::uint8_t, 16> bytes{};
  if (::inet_pton(AF_INET6, name.c_str(), bytes.data()) == 1) return is_private_v6(bytes);
  in_addr v4{};
  // Takes the forms with fewer dots, and in other bases, too.
  if (::inet_aton(name.c_str(), &v4) != 0) {
    std::memcpy(bytes.data(), &v4, 4);
    return is_private_v4(std::span(bytes).first<4>());
  }
  return name == "localhost" || name.ends_with(".localhost");
} catch (...) {  // no memory
  return true;
}

}  // namespace penstock::http
