#include "staging/cuda/pinned.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <string>

namespace penstock::cuda {
namespace {

/// Memory that is touched first in this scope comes from the device's node, if it has one.
class NumaNode {
 public:
  explicit NumaNode(int index) {
    int node = -1;
    if (cudaDeviceGetAttribute(&node, cudaDevAttrHostNumaId, index) != cudaSuccess || node < 0 ||
        node >= 64)
      return;
    const unsigned long mask = 1UL << node;
    constexpr int kPreferred = 1;
    set_ = syscall(SYS_set_mempolicy, kPreferred, &mask, 8 * sizeof(mask)) == 0;
  }
  ~NumaNode() {
    if (set_) syscall(SYS_set_mempolicy, 0, nullptr, 0);
  }
  NumaNode(const NumaNode&) = delete;
  NumaNode& operator=(const NumaNode&) = delete;

 private:
  bool set_ = false;
};

}  // namespace

std::byte* Pinned::allocate(std::size_t bytes) {
  made.fetch_add(1, std::memory_order_relaxed);
  void* data = nullptr;
  {
    const Current current(context_);
    const NumaNode node(index_);
    if (cudaHostAlloc(&data, bytes, cudaHostAllocPortable) == cudaSuccess)
      return static_cast<std::byte*>(data);
    static_cast<void>(cudaGetLastError());
  }
  refused.fetch_add(1, std::memory_order_relaxed);
  const std::string device = "cuda:" + std::to_string(index_);
  services_.log_once(LogLevel::warning, "pageable " + device,
                     device +
                         ": pinning memory was refused; batches are staged from pageable "
                         "memory");
  return heap().allocate(bytes);
}

void Pinned::deallocate(std::byte* data, std::size_t bytes) noexcept {
  const Current current(context_);
  cudaPointerAttributes attributes{};
  const bool pinned = cudaPointerGetAttributes(&attributes, data) == cudaSuccess &&
                      attributes.type == cudaMemoryTypeHost;
  if (pinned) {
    static_cast<void>(cudaFreeHost(data));
  } else {
    static_cast<void>(cudaGetLastError());
    heap().deallocate(data, bytes);
  }
}

}  // namespace penstock::cuda
