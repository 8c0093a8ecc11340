// One image on its way through a chain: from the decoder's rows to the batch row.
#pragma once

#include <cstdint>
#include <vector>

#include <penstock/work.h>

#include "pipeline/work/image/chain.h"
#include "pipeline/work/image/codec.h"
#include "pipeline/work/image/pass_runner.h"

namespace penstock::image {

/// A whole image between two passes: planes.
struct Scratch {
  Size size;
  int channels = 3;
  std::size_t stride = 0;  ///< of planes
  std::vector<std::uint8_t> values;

  static std::size_t stride_of(Size size) noexcept;
  void reset(Size to, int to_channels);
  std::uint8_t* row(int y) noexcept { return values.data() + offset(y); }
  const std::uint8_t* row(int y) const noexcept { return values.data() + offset(y); }
  std::size_t offset(int y) const noexcept {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(size.width);
  }
};

/// Runs chains of ops, one image after the other. The first pass takes the source's rows as they
/// come and, if it is the only one, writes straight to the destination: no whole image is ever
/// held. Not synchronised; keeps its memory, if that is little.
class Pipe final : public PixelSink {
 public:
  /// Starts an image. `format` is the chain's; `row` is where its values go, or null: then into
  /// memory of the context. All must outlive the image.
  void begin(const ImageOps::Chain& chain, const OutputFormat& format, const StepRandom& random,
             WorkContext& context, std::byte* row);

  DecodePlan plan(const ImageInfo& info) override;
  void rows(const std::uint8_t* pixels, std::size_t stride, int count) override;
  /// Takes them of the context's budget until the image ends.
  void make_room(std::uint64_t bytes) override;
  /// Instead of a decoder: takes the pixels of a contiguous u8 tensor [height, width, channels].
  void take(const Tensor& pixels);

  /// After the last row: the result.
  Tensor finish();
  /// Instead of `finish`, for an image that failed: lets go of its memory.
  void abandon() noexcept;
  /// Bytes that it keeps now, about; and lets go of.
  std::size_t kept() const noexcept;
  void let_go_of_all() noexcept;

 private:
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
  std::uint64_t taken_bytes_ = 0;  // of the context's budget

  std::vector<Pass> passes_;
  std::size_t pass_ = 0;  // that runs now
  int channels_ = 3;      // of the rows that come in
  PassRunner runner_;
  OutputFormat format_;
  Tensor result_;

  int orientation_ = 1;
  int taken_ = 0;                     // rows of an image that must be turned
  Scratch stored_;                    // that image, as it is stored
  Scratch scratch_[2];                // results of passes, in turns
  RowWriter writer_;                  // of a result that was adjusted
  std::vector<std::uint8_t> padded_;  // one row, with room for kernels to read beyond it
};

}  // namespace penstock::image
