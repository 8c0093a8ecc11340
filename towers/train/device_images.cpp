#include "towers/train/device_images.h"

#include <utility>

namespace penstock::towers {

DeviceImages::DeviceImages(const DevicePtr& device, std::int64_t rows, const ImageOps& ops)
    : device_(device),
      reconstructor_(device, rows, ops),
      bytes_(static_cast<std::size_t>(rows * reconstructor_.image().shape.volume()) *
             size_of(reconstructor_.image().dtype)),
      data_(device->allocate(bytes_)) {}

DeviceImages::~DeviceImages() {
  device_->deallocate(data_, bytes_);
}

DeviceTensor DeviceImages::make(StreamView stream, const StagedBatch& batch) {
  const ComponentSpec& image = reconstructor_.image();
  const DeviceTensor out{image.dtype, image.shape.prepend(batch[image.name].shape[0]), data_,
                         nullptr};
  reconstructor_.run(std::move(stream), batch, out);
  return out;
}

}  // namespace penstock::towers
