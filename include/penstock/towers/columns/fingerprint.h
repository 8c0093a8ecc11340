// Fingerprints of texts and of combinations; the same as TensorFlow's on every machine.
#pragma once

#include <cstdint>
#include <string_view>

namespace penstock::towers {

inline constexpr std::uint64_t kCrossKey = 0xDECAFCAFFE;  ///< the initial value of crosses

/// Returns FarmHash's Fingerprint64: fingerprint64("bob") is 0x0dd77c65008e3c71. Throws
/// Error{invalid_argument} in a build without libfarmhash.
std::uint64_t fingerprint64(std::string_view text);
/// True unless `fingerprint64` throws.
bool has_fingerprint64() noexcept;
/// Combines two fingerprints; their order matters. Source: TensorFlow, core/platform/fingerprint.h,
/// FingerprintCat64.
std::uint64_t fingerprint_cat64(std::uint64_t first, std::uint64_t second) noexcept;

}  // namespace penstock::towers
