// The engine's memory: none is allocated in steady state, and a failed allocation is an error.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/penstock.h>

#include "pipeline/core/begin_run.h"
#include "pipeline/core/machine.h"
#include "pipeline/engine/make/compute_policy.h"
#include "pipeline/engine/make/thread_pool.h"
#include "pipeline/engine/memory/memory.h"
#include "tests/support/figure.h"
#include "tests/support/files.h"
#include "tests/support/images.h"
#include "tests/support/sanitizer.h"
#include "tests/support/time_limit.h"

namespace {

std::atomic<long> allocations{0};
std::atomic<long> fail_at{-1};  // this one fails; negative: none

bool must_fail() {
  return allocations.fetch_add(1) == fail_at.load();
}

}  // namespace

// Not inlined, or GCC takes malloc and free for a mismatched pair.
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (!must_fail()) {
    if (void* memory = std::malloc(size)) return memory;
  }
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto align = static_cast<std::size_t>(alignment);
  if (!must_fail()) {
    if (void* memory = std::aligned_alloc(align, (size + align - 1) / align * align)) return memory;
  }
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace penstock {
namespace {

Element add_one(Element element) {
  element["value"] = Tensor::scalar(element["value"].item<std::int64_t>() + 1);
  return element;
}

/// Ten pictures over and over.
std::vector<std::pair<std::string, std::string>> jpegs(int count) {
  std::vector<std::string> pictures;
  for (int i = 0; i < 10; ++i) {
    const auto bytes = test::make_jpeg(test::make_pixels(60 + i % 7, 80 + i % 5, 3));
    pictures.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  std::vector<std::pair<std::string, std::string>> files;
  for (int i = 0; i < count; ++i) {
    files.emplace_back("images/" + std::to_string(i % 3) + "/" + std::to_string(10000 + i) + ".jpg",
                       pictures[static_cast<std::size_t>(i) % pictures.size()]);
  }
  return files;
}

Dataset images_of(int count) {
  ImagesOptions options;
  options.files = make_memory_file_system(jpegs(count));
  options.index_folder = "-";
  return images("images", options)
      .map_op(decode_image().random_resized_crop(32).random_flip().normalize().op());
}

/// Allocations of the whole process while batches `from` to `to` are delivered.
long allocations_between(const Dataset& dataset, int threads, int from, int to,
                         const RunSetting& setting = {}) {
  Iterator iterator = begin_run(dataset, {.threads = threads, .memory_bytes = 64 << 20}, setting);
  long before = 0;
  for (int i = 0; i < to; ++i) {
    if (i == from) before = allocations;
    if (!iterator.next().has_value()) throw std::runtime_error("the run ended early");
  }
  return allocations - before;
}

TEST(SteadyState, AllocatesNothing) {
  if (test::kAddressSanitizer) GTEST_SKIP() << "AddressSanitizer has an allocator of its own";
  const Dataset numbers = range(1 << 22).map(add_one).batch(256);
  const Dataset shuffled = range(1 << 22).shuffle().repeat().map(add_one).batch(256);
  const Dataset pictures = images_of(5000).shuffle().batch(8);
  struct Case {
    const char* name;
    const Dataset* dataset;
    int warm;
    long high_marks;
  };
  for (const Case& one :
       {Case{"range", &numbers, 4000, 100}, Case{"shuffled", &shuffled, 4000, 100},
        Case{"images", &pictures, 300, 120}}) {
    for (const int threads : {1, 2}) {
      // Far from one for each batch. A pool still reaches a new high mark now and then.
      EXPECT_LT(allocations_between(*one.dataset, threads, one.warm, 2 * one.warm), one.high_marks)
          << one.name << ", " << threads << " threads";
    }
  }
}

TEST(SteadyState, AllocatesNothingForBatchesThatOthersMake) {
  if (test::kAddressSanitizer) GTEST_SKIP() << "AddressSanitizer has an allocator of its own";
  const RunSetting setting{.share = BatchShare{.of = 64}};
  const Dataset numbers = range(1 << 22).map(add_one).batch(256);
  for (const int threads : {1, 2})
    EXPECT_LT(allocations_between(numbers, threads, 4000, 8000, setting), 200)
        << threads << " threads";
}

/// What a run gives, one text per element, until its end or first error, which is "E".
std::vector<std::string> outcome(const std::function<Dataset()>& build, RunOptions options) {
  std::vector<std::string> all;
  try {
    Iterator iterator = build().iterate(options);
    for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
      if (next.is_error()) {
        all.emplace_back("E");
        return all;
      }
      const Tensor& first = (*next)[0];
      all.emplace_back(reinterpret_cast<const char*>(first.data()),
                       static_cast<std::size_t>(first.volume()) * size_of(first.dtype()));
    }
  } catch (const std::bad_alloc&) {
    all.emplace_back("E");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::resource_exhausted) throw;
    all.emplace_back("E");
  }
  return all;
}

// Each allocation of a run fails once, at every place there is: what comes before the error is
// right, nothing hangs or crashes, and the process continues.
TEST(FailedAllocation, IsAnErrorWhereverItHappens) {
  if (test::kAddressSanitizer) GTEST_SKIP() << "AddressSanitizer has an allocator of its own";
  const auto files = make_memory_file_system(jpegs(12));
  const std::vector<std::pair<const char*, std::function<Dataset()>>> graphs{
      {"batches", [] { return range(40).map(add_one).batch(8); }},
      {"values",
       [] {
         return range(40)
             .shuffle({.buffer = 8})
             .filter([](const Element& element) {
               return element["value"].item<std::int64_t>() % 3 != 0;
             })
             .map(add_one, {.blocking = true});
       }},
      {"nested",
       [] {
         return range(6)
             .flat_map([](const Element&) { return range(5).map(add_one); }, range(1).spec())
             .cache()
             .repeat(2)
             .batch(4);
       }},
      {"images",
       [&] {
         ImagesOptions options;
         options.files = files;
         options.index_folder = "-";
         return images("images", options)
             .shuffle()
             .map_op(decode_image().resize(16, 16).op())
             .batch(4);
       }},
      {"without keys",
       [&] {
         ImagesOptions options;
         options.files = files;
         return images("images", options)
             .map_op(decode_image().resize(16, 16).op())
             .drop({"key"})
             .batch(4);
       }},
  };
  long places = 0;
  for (const auto& [name, build] : graphs) {
    for (const int threads : {1, 2}) {
      const RunOptions options{.seed = 3, .threads = threads, .memory_bytes = 8 << 20};
      const std::vector<std::string> expected = outcome(build, options);
      ASSERT_NE(expected.back(), "E");
      const long start = allocations;
      ASSERT_EQ(outcome(build, options), expected);
      const long total = allocations - start;
      const long step = std::max(1L, total / 400);
      long failed = 0;
      for (long n = 0; n < total; n += step) {
        fail_at = allocations + n;
        const std::vector<std::string> got = outcome(build, options);
        fail_at = -1;
        const bool error = got.back() == "E";
        failed += error ? 1 : 0;
        const std::size_t good = got.size() - (error ? 1 : 0);
        ASSERT_LE(good, expected.size());
        for (std::size_t i = 0; i < good; ++i) {
          ASSERT_EQ(got[i], expected[i]) << name << ", allocation " << n << ", element " << i;
        }
        ASSERT_TRUE(error || good == expected.size()) << name << ", allocation " << n;
      }
      EXPECT_GT(failed, 0) << name;
      EXPECT_EQ(outcome(build, options), expected);
      places += failed;
    }
  }
  test::figure("F17", "%ld allocations failed, each an error; what came before it is right",
               places);
}

// Threads that were started to see how many there can be wait until all are there.
TEST(FailedAllocation, ThreadLimit) {
  const test::TimeLimit limit(60);
  for (const long n : {0, 1, 2, 100, 101, 102}) {
    fail_at = allocations + n;
    EXPECT_LT(startable_threads(500), 500) << "allocation " << n;
    fail_at = -1;
  }
}

TEST(FailedAllocation, CpuQuota) {
  const test::TimeLimit limit(60);
  const std::atomic<int> consumers{0};
  auto workers = std::make_unique<ThreadPool>(
      std::make_unique<ComputePolicy>(2, true, consumers, std::make_shared<TuningLog>()));
  workers->submit([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // it is asked once a second
    fail_at = allocations.load();
  });
  workers.reset();
  EXPECT_GT(allocations, fail_at) << "nothing was allocated";
  fail_at = -1;
}

}  // namespace
}  // namespace penstock
