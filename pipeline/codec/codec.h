// The interface between decoders of image formats and the code that uses their pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <penstock/error.h>
#include <penstock/image.h>
#include <penstock/limits.h>

namespace penstock::image {

/// The number of bytes behind the last pixel of every row in our memory that may be read, because
/// kernels load whole vectors. Their values mean nothing.
inline constexpr std::size_t kRowPadding = 192;

/// The number of bytes that a decoder and the user of its pixels may each allocate for an image
/// without asking, and keep for the next image. They ask for more, and free it with the image.
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

/// The facts in an image's header.
struct ImageInfo {
  Size size;             ///< as stored, before any orientation
  int channels = 3;      ///< channels of the rows to come: 1 (gray) or 3 (RGB)
  int orientation = 1;   ///< EXIF 1…8; always 1 unless DecodeOptions::orient
  bool scalable = true;  ///< the decoder can shrink by 2, 4 and 8
};

/// The part of an image to decode, and its scale. If the region is the whole image, the verdict
/// covers the bytes behind the last pixel too.
struct DecodePlan {
  int denominator = 1;  ///< 1, 2, 4 or 8: the image is shrunk to ceil(size / denominator)
  Rect region;          ///< within the shrunk image; empty: decode only the header
};

/// A receiver of one image. The decoder's thread calls it. A member that throws ends the decoding
/// of this image.
class PixelSink {
 public:
  virtual ~PixelSink() = default;
  /// Chooses what to decode. Called once, before any rows.
  virtual DecodePlan plan(const ImageInfo& info) = 0;
  /// Takes the next `count` rows of the region: interleaved u8, each followed by kRowPadding
  /// readable bytes. The memory belongs to the decoder and is valid during the call.
  virtual void rows(const std::uint8_t* pixels, std::size_t stride, int count) = 0;
  /// Called before the decoder allocates `bytes` more for this image than before, where that
  /// exceeds kUnaskedBytes. May throw if there is no room.
  virtual void make_room(std::uint64_t /*bytes*/) {}
};

/// One image to decode. `status` and `warning` are the answer. They judge the bytes that the region
/// needs; if the region is the whole image, they judge all bytes.
struct DecodeJob {
  std::span<const std::byte> bytes;
  PixelSink* sink = nullptr;
  Status status{};
  std::string warning{};  ///< decoded in spite of this warning, its first; empty: without one
  int denominator = 0;    ///< the scale it was decoded at; 0: the header was enough
  int rows = 0;           ///< decoded rows of the region, at that scale
  int rows_spared = 0;    ///< rows above and below the region
};

/// A decoder of images of one format. It keeps its working memory from one image to the next. Used
/// by one thread at a time.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Decodes the jobs, in any order or several at once. A job that fails does not affect the
  /// others. All errors go to the job's status, and the decoder keeps nothing of them for the next
  /// call.
  virtual void decode(std::span<DecodeJob> jobs, const DecodeOptions& options) noexcept = 0;
  /// Returns the number of jobs that are decoded at once. Each of them needs a sink of its own.
  virtual std::size_t lanes() const noexcept { return 1; }
};

/// Throws Error{out_of_range} for an image above `limits.max_pixels`.
void check_pixels(std::uint64_t width, std::uint64_t height, const Limits& limits);

/// Returns true if the region is the whole image. Throws Error{internal} if it reaches beyond the
/// image, which is a mistake of the sink.
bool check_region(const Rect& region, Size size);

}  // namespace penstock::image
