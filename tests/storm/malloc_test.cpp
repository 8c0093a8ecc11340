// The allocations that fail are those of the C library.
#include <cerrno>
#include <cstdlib>

#include <sys/mman.h>

#include <gtest/gtest.h>

#include "tests/storm/storm.h"

namespace penstock::storm {
namespace {

TEST(FailingMalloc, FailsOfEachKind) {
  void* volatile kept = std::malloc(10);
  void* memory = nullptr;
  begin(0, 5);
  void* volatile plain = std::malloc(10);
  void* volatile zeros = std::calloc(1, 10);
  void* volatile larger = std::realloc(kept, 100);
  const int aligned = ::posix_memalign(&memory, 64, 64);
  const void* const mapped = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* volatile later = std::malloc(10);
  const Tally tally = end();
  EXPECT_EQ(plain, nullptr);
  EXPECT_EQ(zeros, nullptr);
  EXPECT_EQ(larger, nullptr);
  EXPECT_EQ(aligned, ENOMEM);
  EXPECT_EQ(mapped, MAP_FAILED);
  EXPECT_NE(later, nullptr);
  EXPECT_EQ(tally.calls, 6);
  for (const Call call : {Call::malloc, Call::calloc, Call::realloc, Call::aligned, Call::mmap})
    EXPECT_EQ(tally.failed[static_cast<std::size_t>(call)], 1);
  std::free(kept);
  std::free(later);
}

}  // namespace
}  // namespace penstock::storm
