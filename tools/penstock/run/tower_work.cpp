#include "tools/penstock/run/tower_work.h"

#include <string>
#include <utility>

#include <penstock/element.h>

namespace penstock::tool {
namespace {

Tensor on_host(StreamView stream, const DeviceTensor& from) {
  if (from.dtype != DType::bytes) {
    Tensor tensor = Tensor::allocate(from.dtype, from.shape);
    stream.copy({tensor.mutable_data(), from.data, from.nbytes()});
    stream.synchronize();
    return tensor;
  }
  std::vector<std::uint64_t> offsets(static_cast<std::size_t>(from.shape.volume()) + 1);
  stream.copy({offsets.data(), from.data, offsets.size() * sizeof(offsets[0])});
  stream.synchronize();
  std::string text(static_cast<std::size_t>(offsets.back()), '\0');
  stream.copy({text.data(), from.text, text.size()});
  stream.synchronize();
  std::vector<std::string_view> values;
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i)
    values.push_back(
        std::string_view(text).substr(static_cast<std::size_t>(offsets[i]),
                                      static_cast<std::size_t>(offsets[i + 1] - offsets[i])));
  return Tensor::of_bytes(values).reshape(from.shape);
}

}  // namespace

TowerWork::TowerWork(DevicePtr device, Spec batches, std::optional<ImageOps> ops, Digest* digest)
    : device_(std::move(device)),
      batches_(std::move(batches)),
      ops_(std::move(ops)),
      digest_(digest) {}

TowerWork::~TowerWork() {
  free_images();
}

void TowerWork::free_images() noexcept {
  if (bytes_ > 0) device_->deallocate(images_.data, bytes_);
  bytes_ = 0;
}

void TowerWork::run(StreamView stream, const StagedBatch& batch) {
  if (ops_) make_images(stream, batch);
  if (digest_ != nullptr) add_to_digest(stream, batch);
}

void TowerWork::make_images(StreamView stream, const StagedBatch& batch) {
  const std::int64_t rows = batch[ops_->component()].shape[0];
  if (rows > rows_) {
    stream.synchronize();
    free_images();
    reconstructor_.emplace(device_, rows, *ops_);
    rows_ = rows;
    images_.dtype = reconstructor_->image().dtype;
    images_.shape = reconstructor_->image().shape.prepend(rows);
    images_.data = device_->allocate(images_.nbytes());
    bytes_ = images_.nbytes();
  }
  images_.shape = reconstructor_->image().shape.prepend(rows);
  reconstructor_->run(stream, batch, images_);
}

void TowerWork::add_to_digest(StreamView stream, const StagedBatch& batch) {
  const std::string made = ops_ ? ops_->component() : "";
  Element element;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::string& name = batches_[i].name;
    if (ops_ && name == ops_->plan_component()) continue;
    element.set(name, on_host(stream, ops_ && name == made ? images_ : batch[i]));
  }
  element.valid_rows = batch.valid_rows();
  digest_->add(element);
}

}  // namespace penstock::tool
