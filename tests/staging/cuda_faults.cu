#include "tests/staging/cuda_faults.h"

namespace penstock::test {
namespace {

__global__ void store(int* to) {
  *to = 1;
}

}  // namespace

void store_astray(cudaStream_t stream) {
  store<<<1, 1, 0, stream>>>(reinterpret_cast<int*>(0x1000));
}

}  // namespace penstock::test
