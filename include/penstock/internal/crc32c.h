// CRC32C (Castagnoli), the checksum of TFRecord and of Penstock's own files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock {

/// Returns the CRC32C of `bytes`. With `previous`, the CRC of earlier bytes, it is the CRC of those
/// followed by `bytes`. crc32c("123456789") is 0xe3069283. Source: RFC 3720, appendix B.4, for the
/// known answers.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous = 0) noexcept;

/// Returns the form that TFRecord stores, so that a CRC of bytes that hold CRCs is not trivial.
constexpr std::uint32_t mask_crc32c(std::uint32_t crc) noexcept {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

}  // namespace penstock
