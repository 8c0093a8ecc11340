#include "staging/cuda/pinned.h"

#include <string>

#include <penstock/internal/slow_work.h>

#include "staging/cuda/numa.h"

namespace penstock::cuda {
namespace {

/// Returns the NUMA node of the device; negative if it has none.
int node_of(int device) {
  int node = -1;
  if (cudaDeviceGetAttribute(&node, cudaDevAttrHostNumaId, device) == cudaSuccess) return node;
  static_cast<void>(cudaGetLastError());
  return -1;
}

}  // namespace

std::byte* Pinned::allocate(std::size_t bytes) {
  slow_work("memory is pinned");
  made.fetch_add(1, std::memory_order_relaxed);
  void* data = nullptr;
  {
    const Current current(context_);
    const NumaNode node(node_of(index_));
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
  std::byte* const pageable = heap().allocate(bytes);
  try {
    const MutexLock lock(mutex_);
    pageable_.push_back(pageable);
  } catch (...) {
    heap().deallocate(pageable, bytes);
    throw;
  }
  return pageable;
}

// Does not ask the runtime for the kind of memory, because that fails on a lost device.
void Pinned::deallocate(std::byte* data, std::size_t bytes) noexcept {
  bool pageable = false;
  {
    const MutexLock lock(mutex_);
    pageable = std::erase(pageable_, data) > 0;
  }
  if (pageable) return heap().deallocate(data, bytes);
  const Current current(context_);
  static_cast<void>(cudaFreeHost(data));
}

}  // namespace penstock::cuda
