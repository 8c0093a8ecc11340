// GPU work that breaks the context.
#pragma once

#include <cuda_runtime_api.h>

namespace penstock::test {

/// Writes to an invalid address.
void store_astray(cudaStream_t stream);

}  // namespace penstock::test
