// Host memory that a GPU copies from at full speed.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include <penstock/buffer.h>
#include <penstock/internal/thread_annotations.h>

#include "staging/cuda/module.h"
#include "staging/cuda/runtime.h"

namespace penstock::cuda {

/// An allocator of page-locked memory on the device's NUMA node. If that is refused, the memory is
/// pageable, and a warning is logged once. Keeps only the primary context, so it may outlive the
/// device. Thread-safe.
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
  std::vector<std::byte*> pageable_ GUARDED_BY(mutex_);  // memory that could not be pinned
};

}  // namespace penstock::cuda
