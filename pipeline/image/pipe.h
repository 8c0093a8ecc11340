// The path of one image through a chain: from the decoder's rows to the batch row.
#pragma once

#include <cstdint>
#include <vector>

#include <penstock/work.h>

#include "pipeline/codec/codec.h"
#include "pipeline/image/chain.h"
#include "pipeline/image/pass_runner.h"

namespace penstock::image {

/// A whole image between two passes, as planes.
struct Scratch {
  Size size;
  int channels = 3;
  std::size_t stride = 0;  ///< distance of planes
  std::vector<std::uint8_t> values;

  static std::size_t stride_of(Size size) noexcept;
  void reset(Size to, int to_channels);
  std::uint8_t* row(int y) noexcept { return values.data() + offset(y); }
  const std::uint8_t* row(int y) const noexcept { return values.data() + offset(y); }
  std::size_t offset(int y) const noexcept {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(size.width);
  }
};

/// The code that runs chains of ops, one image after the other. The first pass takes the source's
/// rows as they come. If it is the only pass, it writes straight to the destination, so that no
/// whole image is ever held. Not synchronised. Keeps its memory from one image to the next, unless
/// it is large.
class Pipe final : public PixelSink {
 public:
  /// Starts an image. `format` is that of the chain. The values go to `row` or, if it is null, to
  /// memory of the context. All arguments must outlive the image.
  void begin(const ImageOps::Chain& chain, const OutputFormat& format, const StepRandom& random,
             WorkContext& context, std::byte* row);

  DecodePlan plan(const ImageInfo& info) override;
  void rows(const std::uint8_t* pixels, std::size_t stride, int count) override;
  /// Takes the bytes from the context's budget until the image ends.
  void make_room(std::uint64_t bytes) override;
  /// Takes the pixels of a contiguous u8 tensor [height, width, channels] instead of a decoder's.
  void take(const Tensor& pixels);

  /// Returns the result, after the last row.
  Tensor finish();
  /// Frees the memory of an image that failed. Call it instead of `finish`.
  void abandon() noexcept;
  /// Starts or stops adding the time that `rows` takes to `rows_took()`.
  void time_rows(bool timed) noexcept {
    timed_ = timed;
    rows_ns_ = 0;
  }
  std::uint64_t rows_took() const noexcept { return rows_ns_; }
  /// Returns about how many bytes it keeps now. `let_go_of_all` frees them.
  std::size_t kept() const noexcept;
  void let_go_of_all() noexcept;

 private:
  void take_rows(const std::uint8_t* pixels, std::size_t stride, int count);
  std::uint64_t scratch_bytes(int denominator) const noexcept;
  void let_go() noexcept;
  bool is_last(std::size_t pass) const noexcept { return pass + 1 == passes_.size(); }
  DecodePlan plan_oriented(const ImageInfo& info);
  Rect begin_pass(const Shrink& shrink);
  void open_pass();
  void feed(const Scratch& source, const Rect& part);
  void feed_turned();
  void write_out(const Scratch& image);
  Destination destination() noexcept;

  const ImageOps::Chain* chain_ = nullptr;
  const StepRandom* random_ = nullptr;
  WorkContext* context_ = nullptr;
  std::byte* row_ = nullptr;
  std::uint64_t taken_bytes_ = 0;  // taken from the context's budget
  bool timed_ = false;
  std::uint64_t rows_ns_ = 0;

  std::vector<Pass> passes_;
  std::size_t pass_ = 0;  // the pass that runs now
  int channels_ = 3;      // channels of the rows that come in
  PassRunner runner_;
  OutputFormat format_;
  Tensor result_;

  int orientation_ = 1;
  int taken_ = 0;                     // rows so far of an image that must be turned
  Scratch stored_;                    // that image, as it is stored
  Scratch scratch_[2];                // results of passes, in turn
  RowWriter writer_;                  // for a result that was adjusted
  std::vector<std::uint8_t> padded_;  // one row, with room behind it for the kernels
};

}  // namespace penstock::image
