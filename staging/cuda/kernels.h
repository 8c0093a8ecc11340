// The module's kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "staging/finish_functor.h"
#include "staging/reconstruct/image.h"

namespace penstock::cuda {

/// Loads every kernel, so that none is loaded at its first use.
cudaError_t load_kernels();
cudaError_t load_reconstruction();
/// Occupies the stream for so long.
cudaError_t busy(std::int64_t nanoseconds, cudaStream_t stream);
cudaError_t finish(const FinishPlan& plan, std::int64_t volume, cudaStream_t stream);
cudaError_t reconstruct_batch(const reconstruct::Batch& batch, cudaStream_t stream);
cudaError_t one_hot(const OneHotPlan& plan, std::int64_t volume, cudaStream_t stream);

}  // namespace penstock::cuda
