// Owners of cuDNN's descriptors.
#pragma once

#include "towers/gpu/gpu.h"

namespace penstock::towers {

class Descriptor {
 public:
  Descriptor(const Gpu& gpu, int (*create)(void**), int (*destroy)(void*)) : destroy_(destroy) {
    gpu.check_cudnn(create(&object_));
  }
  ~Descriptor() { static_cast<void>(destroy_(object_)); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void* get() const noexcept { return object_; }

 private:
  int (*destroy_)(void*);
  void* object_ = nullptr;
};

struct TensorDescriptor : Descriptor {
  explicit TensorDescriptor(const Gpu& gpu)
      : Descriptor(gpu, gpu.cudnn().create_tensor, gpu.cudnn().destroy_tensor) {}
};

/// cuDNN's name of what activations are.
inline int cudnn_type(const Gpu& gpu) {
  return gpu.dtype() == DType::bf16 ? Cudnn::kBf16 : Cudnn::kFloat;
}

}  // namespace penstock::towers
