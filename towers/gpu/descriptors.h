// Owners of cuDNN's descriptors.
#pragma once

#include <cstdint>

#include "towers/gpu/gpu.h"

namespace penstock::towers {

/// Factors by which cuDNN multiplies a result, and the previous content of the output.
inline constexpr float kOne = 1;
inline constexpr float kZero = 0;

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

/// Returns cuDNN's name of the activations' type.
inline int cudnn_type(const Gpu& gpu) {
  return gpu.dtype() == DType::bf16 ? Cudnn::kBf16 : Cudnn::kFloat;
}

/// Describes activations, channels last: [n,h,w,c]; rows of any other shape as [n,1,1,c].
inline void describe(const Gpu& gpu, const TensorDescriptor& to, const Shape& shape) {
  const bool image = shape.rank() == 4;
  const std::int64_t channels = shape[shape.rank() - 1];
  const std::int64_t rows = image ? shape[0] : shape.volume() / channels;
  gpu.check_cudnn(gpu.cudnn().set_tensor(
      to.get(), Cudnn::kNhwc, cudnn_type(gpu), static_cast<int>(rows), static_cast<int>(channels),
      static_cast<int>(image ? shape[1] : 1), static_cast<int>(image ? shape[2] : 1)));
}

}  // namespace penstock::towers
