// The launches of the kernels in staging/kernels/reconstruct.h.
#include "staging/cuda/kernels.h"
#include "staging/cuda/launcher.h"
#include "staging/kernels/reconstruct.h"

namespace penstock::cuda {

cudaError_t load_reconstruction() {
  Loader loader;
  kernels::reconstruct_batch({.jpegs = 1, .count = 1}, loader);
  return loader.error();
}

cudaError_t reconstruct_batch(const reconstruct::Batch& batch, cudaStream_t stream) {
  return launched([&] {
    const Launcher launch{stream};
    if (batch.out == nullptr) return kernels::decode_scans(batch, launch);
    kernels::reconstruct_batch(batch, launch);
  });
}

}  // namespace penstock::cuda
