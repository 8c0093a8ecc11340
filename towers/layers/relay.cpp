#include "towers/layers/relay.h"

#include <cstddef>

#include "towers/gpu/carrier.h"

namespace penstock::towers {
namespace {

/// Receives values in a device's memory, by a copy on a stream of its own.
class Landing {
 public:
  explicit Landing(const DevicePtr& device) : device_(device), stream_(device, "relay") {}
  Landing(const Landing&) = delete;
  Landing& operator=(const Landing&) = delete;
  ~Landing() { free(); }

  const Array& take(const Array& in) {
    const std::size_t bytes = in.size() * sizeof(float);
    if (bytes > room_) {
      free();
      memory_ = device_->allocate(bytes);
      room_ = bytes;
    }
    values_ = Array::view(reinterpret_cast<float*>(memory_), in.shape());
    stream_.view().copy({memory_, in.data(), bytes});
    stream_.view().synchronize();  // host devices compute on the calling thread
    device_->check();
    return values_;
  }

 private:
  void free() noexcept {
    if (memory_ != nullptr) device_->deallocate(memory_, room_);
    memory_ = nullptr;
  }

  const DevicePtr device_;
  const Stream stream_;
  std::byte* memory_ = nullptr;
  std::size_t room_ = 0;
  Array values_;
};

class Relay final : public Layer {
 public:
  Relay(const DevicePtr& from, const DevicePtr& to) : forth_(to), back_(from) {}
  const Array& forward(const Array& in, const Pass& /*pass*/) override { return forth_.take(in); }
  const Array& backward(const Array& gradient, const Pass& /*pass*/) override {
    return back_.take(gradient);
  }

 private:
  Landing forth_, back_;
};

class GpuRelay final : public Layer {
 public:
  GpuRelay(Gpu& from, Gpu& to) : forth_(from, to), back_(to, from) {}
  const Array& forward(const Array& in, const Pass& /*pass*/) override { return forth_.carry(in); }
  const Array& backward(const Array& gradient, const Pass& /*pass*/) override {
    return back_.carry(gradient);
  }

 private:
  Carrier forth_, back_;
};

}  // namespace

LayerPtr relay(const Part& from, const Part& to) {
  if (from.gpu != nullptr) return std::make_unique<GpuRelay>(*from.gpu, *to.gpu);
  return std::make_unique<Relay>(from.device, to.device);
}

}  // namespace penstock::towers
