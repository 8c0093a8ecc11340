// Who decodes images in this process, and what was decoded; and images as files, to look at.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <penstock/image.h>
#include <penstock/stats.h>
#include <penstock/tensor.h>

namespace penstock {

/// Who decodes JPEGs; pixels and verdicts are the same. `automatic` is `own` where it is faster: on
/// machines with a SIMD target for it.
enum class JpegBackend : std::uint8_t { automatic, own, libjpeg_turbo };

/// For all decoders that the process makes from now on. Thread-safe.
void choose_jpeg_backend(JpegBackend backend) noexcept;
/// "own back end, the faster one here; …": who was chosen, and why.
std::string describe_jpeg_backend();
/// "records of coefficients are expanded, …": how image records are decoded, and why.
std::string describe_record_decoding();

/// What all threads decoded since the process started.
struct DecodingCounts {
  DecoderStats images;
  std::array<std::uint64_t, 4> jpeg_scales{};  ///< JPEGs at full size, 1/2, 1/4 and 1/8
  std::uint64_t jpeg_rows = 0;                 ///< decoded, at those scales
  std::uint64_t jpeg_rows_spared = 0;          ///< outside of crops
  std::uint64_t jpeg_own = 0;                  ///< JPEGs decoded by our own back end
  /// JPEGs that it left to libjpeg-turbo, by reason; those only that happened.
  std::vector<std::pair<std::string, std::uint64_t>> jpeg_fallback;
  std::uint64_t on_device = 0;          ///< images left to a device as coefficients
  std::uint64_t jpeg_coefficients = 0;  ///< image records decoded, by kind
  std::uint64_t jpeg_indexed = 0;
};
DecodingCounts decoding_counts();

/// Writes what a chain made (u8 HWC, or floats in either layout, normalised by `normalize`) as a
/// PNG; a batch's row will do, a batch will not. Values outside of [0, 255] are clamped. Throws
/// Error{invalid_argument} for a tensor that is no image of 1 or 3 channels, Error{unavailable} if
/// the file can't be written.
void dump_image(const Tensor& image, const std::string& path,
                const NormalizeOptions& normalize = {});

}  // namespace penstock
