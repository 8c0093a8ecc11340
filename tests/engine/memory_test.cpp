// The byte budget's buffers: what lies idle is used before more is made, and never at the cost of
// what was promised or of a request that would have fit.
#include "pipeline/engine/memory/memory.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

constexpr std::uint64_t kLimit = 64 << 10;

std::shared_ptr<Memory> memory_of(std::uint64_t limit) {
  return std::make_shared<Memory>(limit, Allocator::heap());
}

BufferPtr take(Memory& memory, std::size_t bytes) {
  std::uint64_t promised = 0;
  return memory.allocate(bytes, promised);
}

TEST(Memory, ReuseOfIdleBuffers) {
  const struct {
    std::size_t idle, wanted;
    bool served;
  } kFacts[] = {
      {8192, 8192, true}, {8192, 7169, true},  {8192, 7168, true},  {8192, 4097, true},
      {8192, 4096, true}, {8192, 3584, false}, {8192, 1024, false}, {8192, 8193, false},
      {1024, 512, true},  {9216, 4096, false}, {1024, 448, false},  {256, 1, true},
  };
  for (const auto& fact : kFacts) {
    SCOPED_TRACE(std::to_string(fact.idle) + " for " + std::to_string(fact.wanted));
    const auto memory = memory_of(kLimit);
    const std::byte* const first = take(*memory, fact.idle)->data();
    const BufferPtr second = take(*memory, fact.wanted);
    EXPECT_EQ(second->data() == first, fact.served);
    EXPECT_GE(second->size(), fact.wanted);
    const std::size_t idle = Memory::rounded(fact.idle);
    EXPECT_EQ(memory->peak(), fact.served ? idle : idle + Memory::rounded(fact.wanted));
  }
}

TEST(Memory, ExactSize) {
  const auto memory = memory_of(kLimit);
  std::uint64_t promised = 0;
  BufferPtr idle = take(*memory, 8192);
  idle = {};
  EXPECT_EQ(memory->allocate(4096, promised, true)->size(), 4096U);
  EXPECT_EQ(memory->allocate(8192, promised, true)->size(), 8192U);
}

TEST(Memory, ChargeOfSmallBuffers) {
  const struct {
    std::size_t bytes, size, charged;
  } kFacts[] = {{1, 128, 256},    {128, 128, 256},    {129, 144, 272},
                {896, 896, 1024}, {1000, 1024, 1024}, {1025, 1152, 1152}};
  for (const auto& fact : kFacts) {
    SCOPED_TRACE(fact.bytes);
    const auto memory = memory_of(kLimit);
    BufferPtr buffer = take(*memory, fact.bytes);
    EXPECT_EQ(buffer->size(), fact.size);
    EXPECT_EQ(memory->used(), fact.charged);
    EXPECT_EQ(Memory::rounded(fact.bytes), fact.charged);
    buffer = {};
    EXPECT_EQ(memory->used(), fact.charged);  // idle
    EXPECT_EQ(memory->room(), kLimit);
  }
}

TEST(Memory, NearestSize) {
  const auto memory = memory_of(kLimit);
  BufferPtr large = take(*memory, 8192);
  BufferPtr small = take(*memory, 5120);
  const std::byte* const nearest = small->data();
  large = {};
  small = {};
  EXPECT_EQ(take(*memory, 4608)->data(), nearest);
}

TEST(Memory, ReservedMemory) {
  const auto memory = memory_of(16 << 10);
  BufferPtr idle = take(*memory, 8192);
  idle = {};
  ASSERT_TRUE(memory->reserve(10 << 10));  // 6 KiB are left
  const BufferPtr exact = take(*memory, 4096);
  ASSERT_TRUE(exact);
  EXPECT_EQ(exact->size(), 4096U);
  std::uint64_t promised = 10 << 10;
  EXPECT_TRUE(memory->allocate(10 << 10, promised));
}

// What a failed attempt releases wakes no one, or two that wait would wake each other for ever.
TEST(Memory, ReleasesOfAnAttempt) {
  const auto memory = memory_of(kLimit);
  const auto other = memory_of(kLimit);
  BufferPtr held = take(*memory, 4096);
  for (const bool succeeds : {false, true}) {
    const std::uint64_t before = memory->releases();
    {
      Memory::Attempt attempt(*memory);
      EXPECT_EQ(attempt.seen(), before);
      take(*memory, 1024);
      {
        const Memory::Attempt nested(*other);  // of a run within an element of this one
        take(*other, 1024);
      }
      take(*memory, 1024);
      EXPECT_EQ(memory->releases(), before);
      if (succeeds) attempt.succeeded();
    }
    EXPECT_EQ(memory->releases() != before, succeeds);
    EXPECT_EQ(other->releases(), 0U);
  }
  const std::uint64_t before = memory->releases();
  held = {};
  EXPECT_NE(memory->releases(), before);
}

// Slots stay, so they do not count.
TEST(Memory, ShareOfReadAhead) {
  const auto memory = memory_of(40 << 10);
  ASSERT_TRUE(memory->charge_slot(20 << 10, true));
  EXPECT_FALSE(memory->reserve(11 << 10, true));
  EXPECT_TRUE(memory->reserve(10 << 10, true));
  EXPECT_FALSE(memory->reserve(1, true));
  EXPECT_TRUE(memory->reserve(10 << 10, false));
  EXPECT_FALSE(memory->reserve(1, false));
}

TEST(Memory, SizesAfterARefusal) {
  const auto memory = memory_of(kLimit);
  BufferPtr idle = take(*memory, 8192);
  idle = {};
  EXPECT_FALSE(take(*memory, kLimit + 1));
  EXPECT_EQ(take(*memory, 4096)->size(), 4096U);
}

TEST(Memory, OversizedBuffer) {
  constexpr std::size_t kMost = PTRDIFF_MAX;
  for (const std::uint64_t limit : {kLimit, kLimit + 1}) {
    const auto memory = memory_of(limit);
    for (const std::size_t bytes : {limit + 1, std::size_t{15} << 60, (std::size_t{15} << 60) + 1,
                                    kMost, kMost + 1, kMost + 2, SIZE_MAX - 100, SIZE_MAX}) {
      EXPECT_FALSE(take(*memory, bytes)) << bytes;
      EXPECT_GE(Memory::rounded(bytes), bytes) << bytes;
    }
    EXPECT_EQ(memory->used(), 0U);
    EXPECT_TRUE(take(*memory, 1));
  }
  const auto boundless = memory_of(UINT64_MAX);
  EXPECT_EQ(boundless->limit(), kMost);
  EXPECT_FALSE(take(*boundless, SIZE_MAX - 100));
  EXPECT_FALSE(take(*boundless, kMost + 1));
  EXPECT_FALSE(boundless->charge(SIZE_MAX));
}

TEST(Memory, RareSizes) {
  // Each round holds one buffer of each of a few sizes; which ones changes from round to round.
  const auto memory = memory_of(1 << 20);
  std::uint64_t early = 0;  // as long as that it takes until there are enough of the largest
  for (int round = 0; round < 4000; ++round) {
    std::vector<BufferPtr> held;
    for (int i = 0; i < 8; ++i) {
      held.push_back(take(*memory, 8193 + static_cast<std::size_t>((round * 7 + i * 613) % 8000)));
    }
    if (round == 1000) early = memory->peak();
  }
  EXPECT_EQ(memory->peak(), early);
}

}  // namespace
}  // namespace penstock
