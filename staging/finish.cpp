#include <penstock/finish.h>

#include <cmath>
#include <limits>

#include <penstock/device_backend.h>

#include "staging/cuda/module.h"
#include "staging/finish_functor.h"
#include "staging/layout.h"

namespace penstock {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorCode::invalid_argument, "finishing: " + why);
}

FinishType type_of(const DeviceTensor& out) {
  switch (out.dtype) {
    case DType::f32:
      return FinishType::f32;
    case DType::f16:
      return FinishType::f16;
    case DType::bf16:
      return FinishType::bf16;
    default:
      refuse("the output must be f32, f16 or bf16, not " + std::string(name_of(out.dtype)));
  }
}

std::span<const std::byte> bytes_of(const DeviceTensor& tensor) {
  return {tensor.data, tensor.nbytes()};
}

/// Calls `value(plan, at)` for every value of the output.
template <typename Plan, typename Value>
void launch(StreamView stream, const Plan& plan, std::int64_t volume, Value value,
            std::vector<std::span<const std::byte>> reads, std::span<const std::byte> writes) {
  stream.device().backend().launch({.run =
                                        [plan, volume, value] {
                                          for (std::int64_t at = 0; at < volume; ++at)
                                            value(plan, at);
                                        },
                                    .reads = std::move(reads),
                                    .writes = {writes}},
                                   stream.state(), Site::current());
}

}  // namespace

void finish_images(StreamView stream, const DeviceTensor& images, const FinishSample* samples,
                   const DeviceTensor& out, const FinishOptions& options) {
  const Shape& in = images.shape;
  const bool first = options.channels_first;
  if (images.dtype != DType::u8 || in.rank() != 4 || out.shape.rank() != 4 || in[3] < 1 ||
      in[3] > 4 || in[1] < 1 || in[2] < 1 || out.shape[0] != in[0] ||
      out.shape[first ? 1 : 3] != in[3]) {
    refuse(text_of(images) + " does not become " + text_of(out) +
           (first ? " with channels first" : " with channels last"));
  }
  for (int axis = 1; axis < 4; ++axis) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() / 2;
    if (in[axis] > kMost || out.shape[axis] > kMost) refuse(text_of(images) + " is too large");
  }
  if (in[2] * in[3] > std::numeric_limits<std::int32_t>::max())
    refuse(text_of(images) + " has rows of 2 GiB and more");
  if (out.shape[1] * out.shape[2] > std::numeric_limits<std::int32_t>::max() / out.shape[3])
    refuse(text_of(out) + " is too large");
  FinishPlan plan;
  plan.images = reinterpret_cast<const std::uint8_t*>(images.data);
  plan.samples = samples;
  plan.out = out.data;
  plan.count = in[0];
  plan.height = static_cast<std::int32_t>(in[1]);
  plan.width = static_cast<std::int32_t>(in[2]);
  plan.channels = static_cast<std::int32_t>(in[3]);
  plan.out_height = static_cast<std::int32_t>(out.shape[first ? 2 : 1]);
  plan.out_width = static_cast<std::int32_t>(out.shape[first ? 3 : 2]);
  plan.channels_first = first ? 1 : 0;
  plan.type = type_of(out);
  for (std::size_t c = 0; c < 4; ++c) {
    if (!(options.stddev[c] > 0)) refuse("a standard deviation must be above 0");
    plan.scale[c] = 1.0F / options.stddev[c];
    plan.shift[c] = -options.mean[c] / options.stddev[c];
    // So that no value is NaN, of which conversions have several forms.
    if (!std::isfinite(plan.scale[c]) || !std::isfinite(plan.shift[c]))
      refuse("means and standard deviations must make finite factors");
  }
  const std::int64_t volume = out.shape.volume();
  if (volume == 0) return;
  if (stream.device().id().kind == DeviceKind::cuda) {
    cuda_module().finish(plan, stream);
    return;
  }
  std::vector<std::span<const std::byte>> reads{bytes_of(images)};
  if (samples != nullptr)
    reads.push_back(std::as_bytes(std::span(samples, static_cast<std::size_t>(in[0]))));
  launch(stream, plan, volume, finish_value, std::move(reads), bytes_of(out));
}

void finish_images(StreamView stream, const DeviceTensor& images, const FinishSample* samples,
                   const DeviceTensor& out) {
  finish_images(stream, images, samples, out, FinishOptions());
}

void one_hot(StreamView stream, const DeviceTensor& labels, const DeviceTensor& out) {
  if (labels.dtype != DType::i64 || labels.shape.rank() != 1 || out.shape.rank() != 2 ||
      labels.shape[0] != out.shape[0]) {
    refuse(text_of(labels) + " does not become " + text_of(out));
  }
  OneHotPlan plan;
  plan.labels = reinterpret_cast<const std::int64_t*>(labels.data);
  plan.out = out.data;
  plan.count = labels.shape[0];
  plan.classes = out.shape[1];
  plan.type = type_of(out);
  const std::int64_t volume = out.shape.volume();
  if (volume == 0) return;
  if (stream.device().id().kind == DeviceKind::cuda) {
    cuda_module().one_hot(plan, stream);
  } else {
    launch(stream, plan, volume, one_hot_value, {bytes_of(labels)}, bytes_of(out));
  }
}

}  // namespace penstock
