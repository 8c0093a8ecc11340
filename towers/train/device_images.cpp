#include "towers/train/device_images.h"

#include <utility>

#include <penstock/error.h>

namespace penstock::towers {

DeviceImages::DeviceImages(StreamView stream, std::int64_t rows, const ImageOps& ops)
    : stream_(std::move(stream)),
      device_(stream_.device().shared_from_this()),
      reconstructor_(device_, rows, ops),
      bytes_(static_cast<std::size_t>(rows * reconstructor_.image().shape.volume()) *
             size_of(reconstructor_.image().dtype)),
      data_(device_->allocate(bytes_)) {}

DeviceImages::~DeviceImages() {
  try {
    stream_.synchronize();
  } catch (const Error&) {  // the device is lost, and works no more
  }
  device_->deallocate(data_, bytes_);
}

DeviceTensor DeviceImages::make(const StagedBatch& batch) {
  const ComponentSpec& image = reconstructor_.image();
  const DeviceTensor out{image.dtype, image.shape.prepend(batch[image.name].shape[0]), data_,
                         nullptr};
  reconstructor_.run(stream_, batch, out);
  return out;
}

}  // namespace penstock::towers
