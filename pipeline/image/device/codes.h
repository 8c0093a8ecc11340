// Huffman codes from a plan: see plan.h. For the host and for CUDA.
#pragma once

#include "pipeline/image/device/plan.h"

namespace penstock::jpeg {

inline constexpr int kMaxCodeBits = 16;

/// The canonical form of a prefix code. Source: ITU T.81, annex C and F.2.2.3.
struct DeviceCode {
  /// Codes of n bits, followed by any 16 - n bits, are below limits[n]. limits[17] is above all
  /// codes.
  std::uint32_t limits[kMaxCodeBits + 2];
  /// Add this to a code of n bits to get its symbol's index.
  std::int32_t offsets[kMaxCodeBits + 2];
};

/// Computes the code. Returns false if the table is not a prefix code that the host accepts. The
/// symbols of a DC table are sizes of at most 15 bits.
PENSTOCK_BOTH inline bool find_code(const DeviceHuffman& table, bool dc, DeviceCode& code) {
  constexpr std::uint32_t kMostSymbols = 256;
  std::uint32_t next = 0;
  std::uint32_t index = 0;
  code.limits[0] = 0;
  code.offsets[0] = code.offsets[kMaxCodeBits + 1] = 0;
  for (int length = 1; length <= kMaxCodeBits; ++length) {
    const std::uint32_t count = table.counts[length - 1];
    if (index + count > kMostSymbols) return false;
    code.offsets[length] = static_cast<std::int32_t>(index) - static_cast<std::int32_t>(next);
    if (dc)
      for (std::uint32_t i = index; i < index + count; ++i)
        if (table.symbols[i] > 15) return false;
    index += count;
    next += count;
    // No code may be all ones.
    if (count > 0 && next >= std::uint32_t{1} << length) return false;
    code.limits[length] = next << (kMaxCodeBits - length);
    next <<= 1;
  }
  code.limits[kMaxCodeBits + 1] = ~0U;
  return true;
}

/// Returns the length of the code at the top of 16 bits, from `shortest` on. 17: there is none.
PENSTOCK_BOTH inline int length_of(const DeviceCode& code, std::uint32_t bits, int shortest) {
  int length = shortest;
  while (bits >= code.limits[length]) ++length;
  return length;
}

}  // namespace penstock::jpeg
