// Decoding images of any format with the decoder of that format.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <penstock/image.h>
#include <penstock/stats.h>

#include "pipeline/codec/codec.h"
#include "pipeline/core/codec_budget.h"

namespace penstock::image {

/// The formats of images. `record`: see pipeline/jpeg/records.
enum class Format { unknown, jpeg, png, record };

/// Detects the format from the first bytes, whatever the file's name is.
Format detect_format(std::span<const std::byte> bytes) noexcept;

/// Decoders of all formats, for the jobs of one thread.
class Decoders {
 public:
  Decoders();
  void decode(std::span<DecodeJob> jobs, const DecodeOptions& options) noexcept;
  std::size_t lanes() const noexcept { return jpeg_->lanes(); }

 private:
  Decoder& decoder_of(Format format) noexcept;
  static void count(Format format, std::span<const DecodeJob> jobs) noexcept;
  static void count_work(std::span<const DecodeJob> jobs) noexcept;
  static void log_warning(Format format, const std::string& warning) noexcept;

  std::unique_ptr<Decoder> jpeg_;
  std::unique_ptr<Decoder> png_;
  std::unique_ptr<Decoder> record_;
};

/// Returns what all threads decoded since the process started.
DecoderStats decoder_stats() noexcept;

/// How much of the JPEGs was decoded since the process started, including failures.
struct JpegWork {
  std::array<std::uint64_t, 4> images{};  ///< by scale: full size, 1/2, 1/4 and 1/8
  std::uint64_t rows = 0;                 ///< decoded rows, at those scales
  std::uint64_t rows_spared = 0;          ///< rows outside of regions
  std::uint64_t timed_ns = 0;             ///< total time of the groups that were timed
  std::uint64_t timed_pixels_ns = 0;      ///< the part of it that processes pixels
};
/// Adds the times of a group of JPEGs.
void count_timed(std::uint64_t all_ns, std::uint64_t pixels_ns) noexcept;
JpegWork jpeg_work() noexcept;

/// Decodes every byte of an image and keeps nothing. Returns success, or the error in the image, or
/// that of the budget if it has no room for what the decoder needs.
Status verify_image(std::span<const std::byte> bytes, const DecodeOptions& options = {},
                    CodecBudget* budget = nullptr);

}  // namespace penstock::image
