// Helpers that the fakes of fake_gpu.h share.
#pragma once

#include <cstdint>

#include "towers/gpu/libraries.h"

namespace penstock::towers::test {

/// The stream for which the calling thread computes. Fakes first wait for it.
StreamView& current_stream();

/// Reads and writes values of f32 or bf16, named as in cuDNN.
inline double get(const void* from, std::int64_t i, int type) {
  return static_cast<double>(type == Cudnn::kBf16 ? load(static_cast<const Bf16*>(from)[i])
                                                  : static_cast<const float*>(from)[i]);
}
inline void put(void* to, std::int64_t i, int type, double value) {
  if (type == Cudnn::kBf16) {
    store(static_cast<Bf16*>(to)[i], static_cast<float>(value));
  } else {
    static_cast<float*>(to)[i] = static_cast<float>(value);
  }
}

/// The fake for cuDNN's descriptors and its handle.
struct FakeDescriptor {
  int type = 0, n = 0, c = 0, h = 0, w = 0;  // of a filter: out, in, h, w; always channels last
  int pad = 0, stride = 1, math = 0;
  int mode = 0, window_h = 0, window_w = 0;  // of pooling

  std::int64_t volume() const { return std::int64_t{n} * c * h * w; }
};
inline int create_fake_descriptor(void** to) {
  *to = new FakeDescriptor();
  return 0;
}
inline int destroy_fake_descriptor(void* object) {
  delete static_cast<FakeDescriptor*>(object);
  return 0;
}

Cudnn fake_cudnn();
/// Adds bias, relu and pooling.
void add_fake_pointwise(Cudnn& table);
Nccl fake_nccl();

}  // namespace penstock::towers::test
