#include <penstock/reconstruct.h>

#include <limits>

#include "pipeline/image/on_device.h"
#include "staging/layout.h"
#include "staging/reconstruct/run_on.h"

namespace penstock {
namespace {

[[noreturn]] void refuse_batch(const std::string& why) {
  throw Error(ErrorCode::invalid_argument, "reconstruction: " + why);
}

}  // namespace

struct Reconstructor::Impl {
  DevicePtr device;
  std::int64_t rows = 0;
  std::string component;
  ComponentSpec image;
  reconstruct::Batch batch;  ///< except for the values of each batch
  std::size_t bytes = 0;

  ~Impl() {
    if (batch.work != nullptr) device->deallocate(reinterpret_cast<std::byte*>(batch.work), bytes);
  }
};

Reconstructor::Reconstructor(const DevicePtr& device, std::int64_t rows, const ImageOps& ops)
    : impl_(std::make_unique<Impl>()) {
  const ImageOps::Chain& chain = ops.chain();
  const image::Size size = image::size_on_device(chain);
  const image::OutputFormat format = image::output_format(chain);
  const bool first = format.layout == Layout::chw;
  const std::int64_t volume = std::int64_t{size.height} * size.width * format.channels;
  constexpr std::int64_t kMostRows = 1 << 20;
  if (rows < 1 || rows > kMostRows || volume > std::numeric_limits<std::int32_t>::max())
    refuse_batch("batches of " + std::to_string(rows) + " images of " + std::to_string(volume) +
                 " values");
  impl_->rows = rows;
  impl_->component = chain.component;
  impl_->image = {chain.component, format.dtype,
                  first ? Shape({format.channels, size.height, size.width})
                        : Shape({size.height, size.width, format.channels})};
  reconstruct::Batch& batch = impl_->batch;
  batch.height = size.height;
  batch.width = size.width;
  batch.channels = format.channels;
  batch.channels_first = first ? 1 : 0;
  batch.jpegs = 1;
  batch.bytes = format.dtype == DType::u8 ? 1 : 0;
  batch.type = format.dtype == DType::f16    ? FinishType::f16
               : format.dtype == DType::bf16 ? FinishType::bf16
                                             : FinishType::f32;
  for (std::size_t c = 0; c < 3; ++c) {
    batch.scale[c] = format.scale[c];
    batch.bias[c] = format.bias[c];
  }
  const std::size_t bytes =
      static_cast<std::size_t>(rows) * static_cast<std::size_t>(reconstruct::kImageWork);
  batch.work = reinterpret_cast<std::uint8_t*>(device->allocate(bytes));
  impl_->bytes = bytes;
  impl_->device = device;
}

Reconstructor::Reconstructor(Reconstructor&&) noexcept = default;
Reconstructor& Reconstructor::operator=(Reconstructor&&) noexcept = default;
Reconstructor::~Reconstructor() = default;

const Reconstructor::Impl& Reconstructor::impl() const {
  return *not_moved(impl_, "reconstructor");
}

const ComponentSpec& Reconstructor::image() const {
  return impl().image;
}

void Reconstructor::run(StreamView stream, const StagedBatch& batch, const DeviceTensor& out) {
  const std::string& component = impl().component;
  run(stream, batch[component], batch[image::plan_component(component)], out);
}

void Reconstructor::run(StreamView stream, const DeviceTensor& bytes, const DeviceTensor& plans,
                        const DeviceTensor& out) {
  reconstruct::Batch batch = impl().batch;
  constexpr std::int64_t kPlan = sizeof(jpeg::DevicePlan);
  if (bytes.dtype != DType::bytes || bytes.shape.rank() != 1 || plans.dtype != DType::u8 ||
      plans.shape.rank() != 2 || plans.shape[1] != kPlan || plans.shape[0] != bytes.shape[0])
    refuse_batch(text_of(bytes) + " and " + text_of(plans) +
                 " are no packed images and their plans");
  batch.count = bytes.shape[0];
  if (out.dtype != impl_->image.dtype || !(out.shape == impl_->image.shape.prepend(batch.count)))
    refuse_batch(std::to_string(batch.count) + " images do not become " + text_of(out));
  if (batch.count > impl_->rows)
    refuse_batch(std::to_string(batch.count) + " images, and there is room for " +
                 std::to_string(impl_->rows));
  if (reinterpret_cast<std::uintptr_t>(plans.data) % alignof(jpeg::DevicePlan) != 0 ||
      reinterpret_cast<std::uintptr_t>(bytes.data) % alignof(std::uint64_t) != 0)
    refuse_batch("plans or offsets are not aligned");
  if (batch.count == 0) return;
  batch.offsets = reinterpret_cast<const std::uint64_t*>(bytes.data);
  batch.packed = reinterpret_cast<const std::uint8_t*>(bytes.text);
  batch.plans = reinterpret_cast<const jpeg::DevicePlan*>(plans.data);
  batch.out = out.data;
  reconstruct::run_on(stream, batch, out.nbytes(), impl_->bytes);
}

}  // namespace penstock
