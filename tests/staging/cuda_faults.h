// Work that breaks a GPU's context.
#pragma once

#include <cuda_runtime_api.h>

namespace penstock::test {

/// Writes to an address that is nobody's.
void store_astray(cudaStream_t stream);

}  // namespace penstock::test
