// What the fakes of fake_gpu.h share.
#pragma once

#include <cstdint>

#include "towers/gpu/libraries.h"

namespace penstock::towers::test {

/// The stream that the calling thread computes for: fakes wait for it first.
StreamView& current_stream();

/// Values of f32 or bf16, as cuDNN names them.
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

Cudnn fake_cudnn();
Nccl fake_nccl();

}  // namespace penstock::towers::test
