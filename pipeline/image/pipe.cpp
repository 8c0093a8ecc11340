#include "pipeline/image/pipe.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

#include "pipeline/core/codec_budget.h"
#include "pipeline/image/adjust.h"
#include "pipeline/image/orient.h"

namespace penstock::image {

namespace {

/// Larger working memory is freed after each image. The limit is above kUnaskedBytes, because
/// images of the usual output sizes need that much each time they are adjusted.
constexpr std::size_t kKeep = 256U << 10;
/// A batch of images of this size or larger does not fit any cache.
constexpr std::size_t kStream = 128U << 10;

int missing(int length, int denominator) {
  return (denominator - length % denominator) % denominator;
}

}  // namespace

std::size_t Scratch::stride_of(Size size) noexcept {
  const std::size_t pixels =
      static_cast<std::size_t>(size.height) * static_cast<std::size_t>(size.width);
  return (pixels + Planes::kPlaneMultiple - 1) / Planes::kPlaneMultiple * Planes::kPlaneMultiple;
}

void Scratch::reset(Size to, int to_channels) {
  size = to;
  channels = to_channels;
  stride = stride_of(to);
  values.resize(stride * static_cast<std::size_t>(channels));
}

void Pipe::begin(const ImageOps::Chain& chain, const OutputFormat& format, const StepRandom& random,
                 WorkContext& context, std::byte* row) {
  chain_ = &chain;
  format_ = format;
  random_ = &random;
  context_ = &context;
  row_ = row;
  taken_bytes_ = 0;
  let_go();  // frees the memory of an image that failed
}

void Pipe::make_room(std::uint64_t bytes) {
  auto* const budget = dynamic_cast<CodecBudget*>(context_);
  if (budget == nullptr) return;
  budget->take(bytes);
  taken_bytes_ += bytes;
}

void Pipe::let_go() noexcept {
  for (Scratch* scratch : {&stored_, &scratch_[0], &scratch_[1]}) {
    if (scratch->values.capacity() > kKeep) *scratch = {};
  }
  if (runner_.bytes() > kKeep) runner_ = {};
  if (padded_.capacity() > kKeep) padded_ = std::vector<std::uint8_t>();
  if (taken_bytes_ == 0) return;
  dynamic_cast<CodecBudget&>(*context_).give(taken_bytes_);
  taken_bytes_ = 0;
}

void Pipe::abandon() noexcept {
  result_ = Tensor();
  let_go();
}

std::size_t Pipe::kept() const noexcept {
  return stored_.values.capacity() + scratch_[0].values.capacity() + scratch_[1].values.capacity() +
         runner_.bytes() + padded_.capacity();
}

void Pipe::let_go_of_all() noexcept {
  stored_ = {};
  for (Scratch& scratch : scratch_) scratch = {};
  runner_ = {};
  padded_ = std::vector<std::uint8_t>();
}

/// Returns the most bytes that the passes take in addition to their result.
std::uint64_t Pipe::scratch_bytes(int denominator) const noexcept {
  constexpr auto kChannels = std::uint64_t{3};
  std::array<std::uint64_t, 2> scratch{};
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < passes_.size(); ++i) {
    const Geometry& geometry = passes_[i].geometry;
    if (!is_last(i) || passes_[i].adjustments.count > 0) {
      std::uint64_t& bytes = scratch[i % 2];
      bytes = std::max(bytes, kChannels * Scratch::stride_of(geometry.size()));
    }
    const auto canvas = static_cast<std::uint64_t>(geometry.canvas.width);
    const auto source = static_cast<std::uint64_t>(geometry.source_crop.width);
    std::uint64_t bytes = kChannels * (source + 2 * canvas + 2 * kRowPadding);
    if (geometry.resized)
      bytes += Resizer::bytes_for(geometry.source_crop, geometry.target, geometry.window,
                                  i == 0 ? denominator : 1);
    most = std::max(most, bytes);
  }
  return scratch[0] + scratch[1] + most;
}

DecodePlan Pipe::plan(const ImageInfo& info) {
  const Size size = Turn(info.orientation).apply(info.size);
  if (size.height < 1 || size.width < 1) {
    throw Error(ErrorCode::data_loss, "an image without pixels");
  }
  orientation_ = info.orientation;
  channels_ = info.channels;
  pass_ = 0;
  taken_ = 0;
  if (!chain_->decode) format_.channels = info.channels;
  const std::uint64_t max_pixels =
      chain_->decode ? chain_->decode->limits.max_pixels : Limits().max_pixels;
  plan_passes(*chain_, size, *random_, max_pixels, passes_);

  const Size out = passes_.back().geometry.size();
  const Shape shape = format_.layout == Layout::hwc
                          ? Shape({out.height, out.width, format_.channels})
                          : Shape({format_.channels, out.height, out.width});
  BufferPtr buffer;
  std::byte* memory = row_;
  if (memory == nullptr) {
    buffer = context_->allocate(static_cast<std::size_t>(shape.volume()) * size_of(format_.dtype));
    memory = buffer->data();
  }
  result_ = Tensor(format_.dtype, shape, memory, std::move(buffer));

  format_.stream = result_.nbytes() >= kStream;

  Shrink shrink;
  if (info.scalable) shrink.denominator = choose_denominator(passes_.front().geometry);
  const std::uint64_t bytes = scratch_bytes(shrink.denominator);
  if (bytes > kUnaskedBytes) make_room(bytes);
  if (orientation_ != 1) return plan_oriented(info);
  return {.denominator = shrink.denominator, .region = begin_pass(shrink)};
}

DecodePlan Pipe::plan_oriented(const ImageInfo& info) {
  const Turn turn(info.orientation);
  const Size size = turn.apply(info.size);
  Shrink shrink;
  if (info.scalable) shrink.denominator = choose_denominator(passes_.front().geometry);
  // A decoder shrinks the stored image from its own corner, which may be another corner of the
  // turned image.
  const int denominator = shrink.denominator;
  if (turn.mirrored_rows) shrink.rows_before = missing(size.height, denominator);
  if (turn.mirrored_columns) shrink.columns_before = missing(size.width, denominator);
  const Rect part = begin_pass(shrink);
  const auto divided = [&](int length) { return (length + denominator - 1) / denominator; };
  const Rect region = turn.stored(part, {divided(size.height), divided(size.width)});
  // Memory for the stored image and the turned one.
  const Size stored{region.height, region.width};
  const std::uint64_t bytes =
      2 * static_cast<std::uint64_t>(channels_) * Scratch::stride_of(stored);
  if (bytes > kUnaskedBytes) make_room(bytes);
  stored_.reset(stored, channels_);
  return {.denominator = denominator, .region = region};
}

Rect Pipe::begin_pass(const Shrink& shrink) {
  const Rect part = runner_.begin(passes_[pass_].geometry, shrink, channels_);
  open_pass();
  return part;
}

Destination Pipe::destination() noexcept {
  Destination to{result_.mutable_data(), format_, 0};
  if (format_.layout == Layout::chw) {
    to.plane_bytes = result_.nbytes() / static_cast<std::size_t>(format_.channels);
  }
  return to;
}

void Pipe::open_pass() {
  const Pass& pass = passes_[pass_];
  if (is_last(pass_) && pass.adjustments.count == 0) return runner_.open(destination());
  // For a gray image, torchvision changes colors in another way as RGB than as gray.
  const int channels = pass.adjustments.count > 0 ? format_.channels : channels_;
  Scratch& scratch = scratch_[pass_ % 2];
  scratch.reset(pass.geometry.size(), channels);
  Destination to;
  to.out = reinterpret_cast<std::byte*>(scratch.values.data());
  to.format.layout = Layout::chw;
  to.format.channels = channels;
  to.plane_bytes = scratch.stride;
  runner_.open(to);
}

void Pipe::rows(const std::uint8_t* pixels, std::size_t stride, int count) {
  if (!timed_) return take_rows(pixels, stride, count);
  const auto start = std::chrono::steady_clock::now();
  take_rows(pixels, stride, count);
  const auto took = std::chrono::steady_clock::now() - start;
  rows_ns_ += static_cast<std::uint64_t>(std::chrono::nanoseconds(took).count());
}

void Pipe::take_rows(const std::uint8_t* pixels, std::size_t stride, int count) {
  if (orientation_ == 1) {
    for (int y = 0; y < count; ++y) runner_.push(pixels + static_cast<std::size_t>(y) * stride);
    return;
  }
  const auto split = row_kernels(DType::u8).split;
  for (int y = 0; y < count; ++y) {
    split(pixels + static_cast<std::size_t>(y) * stride, stored_.size.width, channels_, false,
          stored_.row(taken_++), stored_.stride);
  }
}

void Pipe::take(const Tensor& pixels) {
  ImageInfo info;
  info.size = {static_cast<int>(pixels.dim(0)), static_cast<int>(pixels.dim(1))};
  info.channels = static_cast<int>(pixels.dim(2));
  info.scalable = false;
  const Rect region = plan(info).region;
  const auto channels = static_cast<std::size_t>(info.channels);
  const std::size_t stride = static_cast<std::size_t>(info.size.width) * channels;
  const auto* values = reinterpret_cast<const std::uint8_t*>(pixels.data());
  const std::size_t used = static_cast<std::size_t>(region.width) * channels;
  padded_.resize(used + kRowPadding);
  for (int y = 0; y < region.height; ++y) {
    const std::uint8_t* row = values + static_cast<std::size_t>(region.top + y) * stride +
                              static_cast<std::size_t>(region.left) * channels;
    if (runner_.pads()) {
      std::memcpy(padded_.data(), row, used);
      row = padded_.data();
    }
    runner_.push(row);
  }
}

void Pipe::feed(const Scratch& source, const Rect& part) {
  OutputFormat interleaved;
  interleaved.channels = source.channels;
  padded_.resize(static_cast<std::size_t>(part.width * source.channels) + kRowPadding);
  const auto interleave = row_kernels(DType::u8).finish;
  for (int y = part.top; y < part.top + part.height; ++y) {
    interleave({source.row(y) + part.left, source.stride}, part.width, interleaved,
               reinterpret_cast<std::byte*>(padded_.data()), 0);
    runner_.push(padded_.data());
  }
}

void Pipe::feed_turned() {
  const Turn turn(orientation_);
  Scratch& turned = scratch_[1];  // the first pass does not use it
  turned.reset(turn.apply(stored_.size), stored_.channels);
  for (std::size_t c = 0; c < static_cast<std::size_t>(stored_.channels); ++c) {
    turn_plane(stored_.values.data() + c * stored_.stride, stored_.size, turn,
               turned.values.data() + c * turned.stride);
  }
  feed(turned, {0, 0, turned.size.height, turned.size.width});
}

Tensor Pipe::finish() {
  if (orientation_ != 1) feed_turned();
  runner_.end();
  while (!is_last(pass_) || passes_[pass_].adjustments.count > 0) {
    Scratch& done = scratch_[pass_ % 2];
    const auto pixels =
        static_cast<std::size_t>(done.size.height) * static_cast<std::size_t>(done.size.width);
    adjust({done.values.data(), pixels, done.stride, done.channels},
           passes_[pass_].adjustments.all());
    channels_ = done.channels;
    if (is_last(pass_)) {
      write_out(done);
      break;
    }
    ++pass_;
    feed(done, begin_pass({}));
    runner_.end();
  }
  let_go();
  return std::move(result_);
}

void Pipe::write_out(const Scratch& image) {
  writer_.begin(destination(), image.size, {0, 0, image.size.height, image.size.width},
                image.channels);
  for (int y = 0; y < image.size.height; ++y) writer_.write({image.row(y), image.stride});
  writer_.end();
}

}  // namespace penstock::image
