// A read and work context for tests that run a source or an op on its own.
#pragma once

#include <cstdint>

#include <penstock/work.h>

namespace penstock::test {

/// A context that allocates from the heap and counts the allocations.
class HeapContext final : public WorkContext {
 public:
  explicit HeapContext(std::uint64_t key = 1, std::uint32_t op = 0) {
    key_ = key;
    op_ = op;
  }
  BufferPtr allocate(std::size_t bytes) override {
    ++allocations;
    allocated_bytes += bytes;
    return allocate_buffer(bytes);
  }

  std::size_t allocations = 0;
  std::size_t allocated_bytes = 0;
};

}  // namespace penstock::test
