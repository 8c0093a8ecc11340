// The seam between image formats and what is done with their pixels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <penstock/error.h>
#include <penstock/image.h>
#include <penstock/limits.h>
#include <penstock/stats.h>

namespace penstock::image {

/// Bytes behind the last pixel of every row in memory of ours that may be read, but mean nothing:
/// kernels load whole vectors.
inline constexpr std::size_t kRowPadding = 192;

/// What a decoder, and what is done with its pixels, each take for an image without asking, and may
/// keep for the next. More is asked for, and let go of with the image.
inline constexpr std::size_t kUnaskedBytes = 96U << 10;

struct Size {
  int height = 0;
  int width = 0;

  friend bool operator==(const Size&, const Size&) = default;
};

/// Pixels [left, left + width) x [top, top + height).
struct Rect {
  int top = 0;
  int left = 0;
  int height = 0;
  int width = 0;

  bool empty() const noexcept { return height <= 0 || width <= 0; }
  friend bool operator==(const Rect&, const Rect&) = default;
};

/// What a header says.
struct ImageInfo {
  Size size;             ///< as stored, before any orientation
  int channels = 3;      ///< of the rows that will come: 1 (gray) or 3 (RGB)
  int orientation = 1;   ///< EXIF 1…8; always 1 unless DecodeOptions::orient
  bool scalable = true;  ///< the decoder can shrink by 2, 4 and 8
};

/// What is wanted of an image. Where it is the whole, the bytes behind the last pixel are judged
/// too.
struct DecodePlan {
  int denominator = 1;  ///< 1, 2, 4 or 8: the image is shrunk to ceil(size / denominator)
  Rect region;          ///< within the shrunk image; empty: nothing but the header
};

/// Receives one image. Called by the decoder's thread; may throw, which ends this image's decoding.
class PixelSink {
 public:
  virtual ~PixelSink() = default;
  /// Chooses what to decode. Called once, before any rows.
  virtual DecodePlan plan(const ImageInfo& info) = 0;
  /// The next `count` rows of the region, interleaved u8, each followed by kRowPadding readable
  /// bytes. The memory is the decoder's and valid during the call.
  virtual void rows(const std::uint8_t* pixels, std::size_t stride, int count) = 0;
  /// Called before the decoder takes so many bytes for this image beside those before, more than
  /// kUnaskedBytes. May throw: there is no room.
  virtual void make_room(std::uint64_t /*bytes*/) {}
};

/// One image to decode. `status` and `warned` are the answer: the verdict on the bytes that the
/// region needs; for the whole image, on all of them.
struct DecodeJob {
  std::span<const std::byte> bytes;
  PixelSink* sink = nullptr;
  Status status{};
  bool warned = false;  ///< taken in spite of a warning, by a decoder that is not strict
  int denominator = 0;  ///< the scale it was decoded at; 0: the header was enough
  int rows = 0;         ///< of the region, at that scale
  int rows_spared = 0;  ///< in front of the region and behind it
};

/// Decodes images of one format; keeps its working memory from one to the next. Used by one thread
/// at a time.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Decodes each job, in any order or at once; one that fails does not affect the others. All that
  /// goes wrong is the job's status, and nothing of it is kept for the next call.
  virtual void decode(std::span<DecodeJob> jobs, const DecodeOptions& options) noexcept = 0;
  /// Jobs that are decoded at once: each needs a sink of its own.
  virtual std::size_t lanes() const noexcept { return 1; }
};

/// `record`: see pipeline/work/jpeg/records.
enum class Format { unknown, jpeg, png, record };

/// By the first bytes, whatever the name says.
Format detect_format(std::span<const std::byte> bytes) noexcept;

/// Decodes jobs of one thread, each by the decoder of its format.
class Decoders {
 public:
  Decoders();
  void decode(std::span<DecodeJob> jobs, const DecodeOptions& options) noexcept;
  std::size_t lanes() const noexcept { return jpeg_->lanes(); }

 private:
  Decoder& decoder_of(Format format) noexcept;
  static void count(Format format, std::span<const DecodeJob> jobs) noexcept;
  static void count_work(std::span<const DecodeJob> jobs) noexcept;

  std::unique_ptr<Decoder> jpeg_;
  std::unique_ptr<Decoder> png_;
  std::unique_ptr<Decoder> record_;
};

/// What all threads decoded since the process started.
DecoderStats decoder_stats() noexcept;

/// How much of the JPEGs was decoded since then, failures included.
struct JpegWork {
  std::array<std::uint64_t, 4> images{};  ///< at full size, 1/2, 1/4 and 1/8
  std::uint64_t rows = 0;                 ///< decoded, at those scales
  std::uint64_t rows_spared = 0;          ///< outside of regions
};
JpegWork jpeg_work() noexcept;

/// Decodes every byte of an image and keeps nothing: success, or what is wrong with it.
Status verify_image(std::span<const std::byte> bytes, const Limits& limits = {});

/// Throws Error{out_of_range} for an image above `limits.max_pixels`.
void check_pixels(std::uint64_t width, std::uint64_t height, const Limits& limits);

/// Throws Error{internal} for a region that reaches beyond the image: a sink's mistake. True if it
/// is the whole image.
bool check_region(const Rect& region, Size size);

}  // namespace penstock::image
