// The kernels of the module.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "staging/finish_functor.h"
#include "staging/reconstruct/image.h"

namespace penstock::cuda {

/// Loads every kernel in advance, so that no first use has to load one.
cudaError_t load_kernels();
cudaError_t load_reconstruction();
/// Keeps the stream busy for this time.
cudaError_t busy(std::int64_t nanoseconds, cudaStream_t stream);
cudaError_t finish(const FinishPlan& plan, cudaStream_t stream);
cudaError_t reconstruct_batch(const reconstruct::Batch& batch, cudaStream_t stream);
cudaError_t one_hot(const OneHotPlan& plan, cudaStream_t stream);

}  // namespace penstock::cuda
