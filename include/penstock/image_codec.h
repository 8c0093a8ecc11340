// The decoders of this process and their counts; and images as PNG files, to look at.
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

/// The decoder of JPEGs. Pixels and verdicts are the same. `automatic` is `own` where that is
/// faster: on machines with a SIMD target for it.
enum class JpegBackend : std::uint8_t { automatic, own, libjpeg_turbo };

/// Chooses the back end of all decoders that the process makes from now on. Thread-safe.
void choose_jpeg_backend(JpegBackend backend) noexcept;
/// Returns "own back end, the faster one here; …": the choice and its reason.
std::string describe_jpeg_backend();
/// Returns "records of coefficients are expanded, …": how image records are decoded, and why.
std::string describe_record_decoding();

/// Counts of all threads' decoding since the process started.
struct DecodingCounts {
  DecoderStats images;                         ///< all images
  std::array<std::uint64_t, 4> jpeg_scales{};  ///< JPEGs at full size, 1/2, 1/4 and 1/8
  std::uint64_t jpeg_rows = 0;                 ///< decoded, at those scales
  std::uint64_t jpeg_rows_spared = 0;          ///< outside of crops
  std::uint64_t jpeg_own = 0;                  ///< JPEGs decoded by Penstock's own back end
  /// JPEGs that it left to libjpeg-turbo, by reason. Only reasons that occurred are listed.
  std::vector<std::pair<std::string, std::uint64_t>> jpeg_fallback;
  /// Images left to a device, as coefficients or as JPEGs. Those that are made again count again.
  std::uint64_t on_device = 0;
  /// Images that ImageOps::on_device had to leave to the host, by reason. Only reasons that
  /// occurred are listed: "format", "unchecked", "header", "orientation", "room", "ops", "size",
  /// "libjpeg-turbo". "undecoded" are those that a device did not decode: they count twice, as the
  /// host makes them again.
  std::vector<std::pair<std::string, std::uint64_t>> on_host;
  std::uint64_t jpeg_coefficients = 0;  ///< image records of coefficients that were decoded
  std::uint64_t jpeg_indexed = 0;       ///< indexed image records that were decoded
  /// Seconds of decoding, with all work on the pixels. One group of JPEGs in sixteen is timed, on
  /// each thread.
  double timed_s = 0;
  /// Seconds of these for the work on the pixels alone.
  double timed_pixels_s = 0;
};
/// Returns the counts so far.
DecodingCounts decoding_counts();

/// Writes the result of a chain as a PNG: u8 HWC, or floats in either layout, normalised by
/// `normalize`. It takes a row of a batch, not a batch. Values outside of [0, 255] are clamped.
/// Throws Error{invalid_argument} for a tensor that is not an image of 1 or 3 channels, and
/// Error{unavailable} if the file can't be written.
void dump_image(const Tensor& image, const std::string& path,
                const NormalizeOptions& normalize = {});

}  // namespace penstock
