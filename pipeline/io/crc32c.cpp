#include "pipeline/io/crc32c.h"

#include <algorithm>

#include <isa-l/crc.h>

namespace penstock {

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous) noexcept {
  constexpr std::size_t kMost = 1 << 30;  // ISA-L counts in int
  std::uint32_t crc = ~previous;
  do {
    const std::size_t n = std::min(bytes.size(), kMost);
    // ISA-L only reads; its prototype lacks the const.
    auto* const data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
    crc = ::crc32_iscsi(data, static_cast<int>(n), crc);
    bytes = bytes.subspan(n);
  } while (!bytes.empty());
  return ~crc;
}

}  // namespace penstock
