// The allocations that fail are those of C++, so that a sanitizer keeps malloc to itself.
#include <climits>
#include <cstdlib>
#include <new>
#include <vector>

#include <gtest/gtest.h>

#include "tests/storm/storm.h"

namespace {

void* allocate(std::size_t size, std::size_t alignment) noexcept {
  if (penstock::storm::must_fail(penstock::storm::Call::new_)) return nullptr;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(size == 0 ? 1 : size);
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(std::size_t size, std::size_t alignment) {
  if (void* memory = allocate(size, alignment)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// Not inlined, or GCC takes malloc and free for a mismatched pair.
[[gnu::noinline]] void* operator new(std::size_t size) {
  return allocate_or_throw(size, 1);
}
[[gnu::noinline]] void* operator new[](std::size_t size) {
  return allocate_or_throw(size, 1);
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void* operator new[](std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, 1);
}
[[gnu::noinline]] void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, 1);
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment,
                                     const std::nothrow_t&) noexcept {
  return allocate(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace penstock::storm {
namespace {

TEST(FailingNew, FailsAsOftenAsTold) {
  std::vector<int> numbers;
  begin(1, 2);
  numbers.reserve(10);
  EXPECT_THROW(numbers.reserve(100), std::bad_alloc);
  const void* const none = ::operator new(8, std::nothrow);
  numbers.reserve(1000);
  const Tally tally = end();
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(tally.calls, 4);
  EXPECT_EQ(tally.all_failed(), 2);
}

}  // namespace
}  // namespace penstock::storm
