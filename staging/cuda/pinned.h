// Host memory that a GPU copies from at full speed.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include <penstock/buffer.h>

#include "pipeline/core/thread_annotations.h"
#include "staging/cuda/module.h"
#include "staging/cuda/runtime.h"

namespace penstock::cuda {

/// Page-locked memory on the device's NUMA node; pageable where that is refused, which is said
/// once. Keeps nothing but the primary context, so that it may outlive the device. Thread-safe.
class Pinned final : public Allocator {
 public:
  Pinned(int index, CUcontext context, const CudaServices& services)
      : index_(index), context_(context), services_(services) {}

  std::byte* allocate(std::size_t bytes) override;
  void deallocate(std::byte* data, std::size_t bytes) noexcept override;

  std::atomic<std::uint64_t> made{0};
  std::atomic<std::uint64_t> refused{0};

 private:
  const int index_;
  const CUcontext context_;
  const CudaServices services_;

  Mutex mutex_;
  std::vector<std::byte*> pageable_ GUARDED_BY(mutex_);  // what pinning was refused for
};

}  // namespace penstock::cuda
