#include <penstock/internal/crc32c.h>

#include <cstring>

#include <isa-l/crc.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace penstock {
namespace {

#if defined(__x86_64__)

// ISA-L 2.30 leaves the upper halves of vector registers dirty where it uses AVX-512. Until they
// are cleared, Intel's processors take about a hundred nanoseconds for each change between ISA-L's
// instructions and SSE, which the other code uses.
void clear_upper_halves() noexcept {
  static const bool avx = __builtin_cpu_supports("avx") != 0;
  if (avx) asm volatile("vzeroupper" ::: "memory");
}

// One instruction computes the CRC of eight bytes, such as a record's length.
__attribute__((target("sse4.2"))) std::uint32_t crc_of_eight(std::uint64_t bytes,
                                                             std::uint32_t crc) noexcept {
  return static_cast<std::uint32_t>(_mm_crc32_u64(crc, bytes));
}
bool has_crc_instruction() noexcept {
  static const bool has = __builtin_cpu_supports("sse4.2") != 0;
  return has;
}

#else

void clear_upper_halves() noexcept {}

#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous) noexcept {
  constexpr std::size_t kMost = 1 << 30;  // ISA-L counts in int
  std::uint32_t crc = ~previous;
#if defined(__x86_64__)
  if (bytes.size() == sizeof(std::uint64_t) && has_crc_instruction()) {
    std::uint64_t value;
    std::memcpy(&value, bytes.data(), sizeof(value));
    return ~crc_of_eight(value, crc);
  }
#endif
  // ISA-L only reads; its prototype lacks the const.
  auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
  std::size_t left = bytes.size();
  for (; left > kMost; left -= kMost, data += kMost) {
    crc = ::crc32_iscsi(data, static_cast<int>(kMost), crc);
  }
  crc = ::crc32_iscsi(data, static_cast<int>(left), crc);
  clear_upper_halves();
  return ~crc;
}

}  // namespace penstock
