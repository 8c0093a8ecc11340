// Libraries of NVIDIA's that layers and gradient exchange call.
#pragma once

#include <span>

#include "staging/cuda/module.h"

namespace penstock::cuda {

/// cuDNN, cuBLASLt and NCCL, opened at the first call where the linker finds them (LD_LIBRARY_PATH
/// for NVIDIA's Python wheels). They are opened and not linked, so that staging needs none of them.
std::span<const CudaLibrary> libraries();

}  // namespace penstock::cuda
