#include <penstock/buffer.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/support/errors.h"

namespace penstock {
namespace {

class CountingAllocator final : public Allocator {
 public:
  std::byte* allocate(std::size_t bytes) override {
    live += static_cast<std::ptrdiff_t>(bytes);
    ++calls;
    return heap().allocate(bytes);
  }
  void deallocate(std::byte* data, std::size_t bytes) noexcept override {
    live -= static_cast<std::ptrdiff_t>(bytes);
    heap().deallocate(data, bytes);
  }
  std::ptrdiff_t live = 0;
  int calls = 0;
};

TEST(Buffer, IsAlignedAndGoesBackWhole) {
  CountingAllocator allocator;
  for (const std::size_t bytes : {0U, 1U, 63U, 64U, 65U, 100'000U}) {
    BufferPtr buffer = allocate_buffer(bytes, allocator);
    EXPECT_EQ(buffer->size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % Allocator::kAlignment, 0U);
    std::memset(buffer->data(), 0xff, bytes);
    EXPECT_GE(allocator.live, static_cast<std::ptrdiff_t>(bytes));
    buffer = BufferPtr();
    EXPECT_EQ(allocator.live, 0);
  }
  EXPECT_EQ(allocator.calls, 6);
}

TEST(Buffer, CountsReferences) {
  CountingAllocator allocator;
  BufferPtr first = allocate_buffer(8, allocator);
  EXPECT_TRUE(first->unique());
  {
    const BufferPtr second = first;
    EXPECT_FALSE(first->unique());
    EXPECT_EQ(first, second);
  }
  EXPECT_TRUE(first->unique());
  BufferPtr moved = std::move(first);
  EXPECT_TRUE(moved->unique());
  BufferPtr& same = moved;
  moved = same;
  EXPECT_TRUE(moved->unique());
  EXPECT_GT(allocator.live, 0);
  moved = BufferPtr();
  EXPECT_EQ(allocator.live, 0);
}

TEST(Buffer, ReleaseByManyThreads) {
  CountingAllocator allocator;
  BufferPtr buffer = allocate_buffer(8, allocator);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([copy = buffer]() mutable {
      for (int j = 0; j < 1000; ++j) BufferPtr again = copy;
      copy = BufferPtr();
    });
  }
  buffer = BufferPtr();
  threads.clear();
  EXPECT_EQ(allocator.live, 0);
}

TEST(Buffer, RefusesWhatCannotBe) {
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX - 63, SIZE_MAX / 2}) {
    test::expect_error(ErrorCode::resource_exhausted, std::to_string(bytes),
                       [&] { allocate_buffer(bytes); });
  }
}

}  // namespace
}  // namespace penstock
