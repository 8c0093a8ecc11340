// What towers on GPUs call, opened when the first one is made.
#pragma once

#include "towers/gpu/kernels.h"
#include "towers/gpu/tables.h"

namespace penstock::towers {

struct GpuLibraries {
  Cudnn cudnn;
  CublasLt blas;
  const Nccl& (*nccl)() = nullptr;  ///< looked for by the first call; throws Error{not_found}
  Kernels kernels;
};

/// Opens libpenstock_towers_cuda.so beside the program, cuDNN 9 and cuBLASLt, once; NCCL when
/// several GPUs exchange something. Throws Error{not_found} naming what is missing.
const GpuLibraries& gpu_libraries();

}  // namespace penstock::towers
