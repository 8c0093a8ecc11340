#include "staging/scan_check.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "pipeline/image/on_device.h"
#include "staging/layout.h"
#include "staging/reconstruct/run_on.h"

namespace penstock {

using jpeg::DevicePlan;
using jpeg::PlanFit;
using jpeg::PlanKind;

namespace {

/// Images that are decoded at once. They share no memory, so more take more of it.
constexpr std::int64_t kTogether = 128;

Spec checked_part(const Spec& batches, const std::string& images) {
  Spec part;
  for (const std::string& name : {images, image::plan_component(images)})
    part = part.with(batches[static_cast<std::size_t>(batches.find(name))]);
  return part;
}

std::size_t work_bytes(std::int64_t rows) {
  return static_cast<std::size_t>(std::min(rows, kTogether)) *
         static_cast<std::size_t>(reconstruct::kImageWork);
}

std::size_t fits_bytes(std::int64_t rows) {
  return static_cast<std::size_t>(rows) * sizeof(std::int32_t);
}

bool is_jpeg(const Tensor& plans, std::int64_t row) {
  PlanKind kind{};
  std::memcpy(&kind,
              plans.data() + static_cast<std::size_t>(row) * sizeof(DevicePlan) +
                  offsetof(DevicePlan, kind),
              sizeof(kind));
  return kind == PlanKind::jpeg;
}

}  // namespace

std::optional<std::string> ScanCheck::images_of(const Spec& batches) {
  std::optional<std::string> found;
  for (const ComponentSpec& images : batches) {
    const int plans = batches.find(image::plan_component(images.name));
    if (images.dtype != DType::bytes || plans < 0) continue;
    const ComponentSpec& plan = batches[static_cast<std::size_t>(plans)];
    if (plan.dtype != DType::u8 || plan.shape.rank() != 2 || plan.shape[1] != sizeof(DevicePlan))
      continue;
    if (found) return std::nullopt;
    found = images.name;
  }
  return found;
}

std::uint64_t ScanCheck::device_bytes(const Spec& batches, const std::string& images,
                                      const Options& options) {
  const BatchLayout layout(checked_part(batches, images), options.rows, options.max_bytes);
  return layout.bytes() + work_bytes(options.rows) + fits_bytes(options.rows);
}

ScanCheck::ScanCheck(const DevicePtr& device, const Spec& batches, const std::string& images,
                     const Options& options)
    : images_(images),
      plans_(image::plan_component(images)),
      device_(device),
      pinned_(device->pinned()),
      rows_(static_cast<std::size_t>(options.rows)),
      max_bytes_(options.max_bytes),
      bytes_(work_bytes(options.rows) + fits_bytes(options.rows)) {
  stream_.emplace(device, "check of scans");
  area_.emplace(device, checked_part(batches, images), options.rows,
                StagingOptions{.slots = 1,
                               .ahead = 0,
                               .max_bytes = options.max_bytes,
                               .watchdog_s = options.watchdog_s});
  memory_ = device->allocate(bytes_);
  try {
    fits_ = reinterpret_cast<std::int32_t*>(pinned_->allocate(fits_bytes(options.rows)));
  } catch (...) {
    device_->deallocate(memory_, bytes_);
    throw;
  }
}

ScanCheck::~ScanCheck() {
  stream_.reset();  // its work uses the slot
  permit_.reset();
  area_.reset();
  device_->deallocate(memory_, bytes_);
  pinned_->deallocate(reinterpret_cast<std::byte*>(fits_), rows_ * sizeof(fits_[0]));
}

std::int64_t ScanCheck::undecoded(const Element& batch) {
  const Tensor& plans = batch[plans_];
  const std::int64_t count = plans.dim(0);
  std::int64_t jpegs = 0;
  for (std::int64_t row = 0; row < count; ++row) jpegs += is_jpeg(plans, row) ? 1 : 0;
  if (jpegs == 0) return 0;
  std::uint64_t bytes_here = 0;
  for (std::int64_t row = 0; row < count; ++row) bytes_here += batch[images_].bytes_at(row).size();
  if (bytes_here > max_bytes_) return jpegs;

  Piece piece{Element{{images_, batch[images_]}, {plans_, plans}}, 0, count};
  area_->put(permit_ ? std::move(*std::exchange(permit_, std::nullopt)) : area_->reserve(),
             {&piece, 1});
  std::optional<StagedBatch> staged = area_->get();
  const StreamView stream = *stream_;
  staged->synchronize();  // no work is enqueued behind a copy that hangs
  staged->wait(stream);
  const DeviceTensor& bytes = (*staged)[images_];
  const DeviceTensor& all = (*staged)[plans_];
  reconstruct::Batch part;
  part.jpegs = 1;
  part.packed = reinterpret_cast<const std::uint8_t*>(bytes.text);
  part.work = reinterpret_cast<std::uint8_t*>(memory_);
  // The images' places in the output are not known here, and decoding does not depend on them.
  part.height = part.width = std::numeric_limits<std::int32_t>::max();
  const std::size_t work = bytes_ - rows_ * sizeof(fits_[0]);
  auto* const fits = reinterpret_cast<std::int32_t*>(memory_ + work);
  constexpr std::int32_t kNotRun = -1;  // what kernels that do not run leave
  std::fill_n(fits_, count, kNotRun);
  stream.copy({fits, fits_, fits_bytes(count)});
  for (std::int64_t first = 0; first < count; first += kTogether) {
    part.count = std::min(kTogether, count - first);
    part.offsets = reinterpret_cast<const std::uint64_t*>(bytes.data) + first;
    part.plans = reinterpret_cast<const DevicePlan*>(all.data) + first;
    part.fits = fits + first;
    reconstruct::run_on(stream, part, 0, work);
  }
  stream.copy({fits_, fits, fits_bytes(count)});
  staged->release(stream);
  permit_ = area_->reserve();  // there is one as soon as the device has passed the release
  std::int64_t undecoded = 0;
  for (std::int64_t row = 0; row < count; ++row) {
    const bool decoded = fits_[row] == static_cast<std::int32_t>(PlanFit::fits);
    undecoded += is_jpeg(plans, row) && !decoded ? 1 : 0;
  }
  return undecoded;
}

}  // namespace penstock
