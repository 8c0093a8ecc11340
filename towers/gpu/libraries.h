// The libraries that towers on GPUs call, opened when the first such tower is made.
#pragma once

#include "towers/gpu/kernels.h"
#include "towers/gpu/tables.h"

namespace penstock::towers {

struct GpuLibraries {
  Cudnn cudnn;
  CublasLt blas;
  /// Opened by the first call; throws Error{not_found}.
  const Nccl& (*nccl)() = nullptr;
  Kernels kernels;
};

/// Opens libpenstock_towers_cuda.so in the program's folder, cuDNN 9 and cuBLASLt, once. NCCL is
/// opened when several GPUs exchange data. Throws Error{not_found}, which names the missing
/// library.
const GpuLibraries& gpu_libraries();

}  // namespace penstock::towers
