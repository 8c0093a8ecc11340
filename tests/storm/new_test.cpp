// The allocations that fail are those of C++, so that a sanitizer keeps malloc to itself.
#include <cstdlib>
#include <memory>
#include <new>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "pipeline/image/png.h"
#include "pipeline/jpeg/decoder.h"
#include "pipeline/jpeg/turbo/turbo.h"
#include "tests/storm/storm.h"
#include "tests/support/decoding.h"

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

struct Coder {
  const char* name;
  std::unique_ptr<image::Decoder> (*make)();
  std::vector<std::byte> (*file)(int);
};

std::vector<std::byte> jpeg_file(int i) {
  return test::make_jpeg(test::make_pixels(50 + 9 * i, 90 - 7 * i, 3),
                         {.horizontal = 1 + i % 2, .progressive = i == 3});
}
std::vector<std::byte> png_file(int i) {
  const test::Pixels pixels = test::make_pixels(30 + i, 40, 3);
  return test::make_png(pixels.height, pixels.width, pixels.values, {.interlaced = i == 1});
}

// What a call leaves behind must not reach the next one: its jobs and sinks are gone then.
TEST(FailingNew, LeavesDecodersWhole) {
  constexpr int kFiles = 5;
  for (const Coder& coder : {Coder{"own", [] { return jpeg::make_decoder(); }, jpeg_file},
                             Coder{"library", image::make_jpeg_decoder, jpeg_file},
                             Coder{"png", image::make_png_decoder, png_file}}) {
    std::vector<std::vector<std::byte>> files;
    for (int i = 0; i < kFiles; ++i) files.push_back(coder.file(i));
    const auto decode_all = [&](image::Decoder& decoder, long place, long burst) {
      std::vector<test::Keeper> keepers(kFiles, test::Keeper(test::all));
      std::vector<image::DecodeJob> jobs;
      for (std::size_t i = 0; i < kFiles; ++i) jobs.push_back({files[i], &keepers[i]});
      begin(place, burst);
      decoder.decode(jobs, {});
      const long failed = end().all_failed();
      std::vector<test::Pixels> pixels;
      for (std::size_t i = 0; i < kFiles; ++i)
        pixels.push_back(jobs[i].status.ok() ? keepers[i].pixels() : test::Pixels());
      return std::pair(failed, std::move(pixels));
    };
    const auto expected = decode_all(*coder.make(), 0, 0).second;
    for (const test::Pixels& pixels : expected) ASSERT_FALSE(pixels.values.empty());
    for (const long burst : {1, 2, 3, 5, 100}) {
      const auto decoder = coder.make();
      for (long place = 0, failed = 1; failed > 0; ++place) {
        std::vector<test::Pixels> got;
        // A fresh one meets allocations that the other has behind it.
        const auto fresh = coder.make();
        for (image::Decoder* one : {fresh.get(), decoder.get()}) {
          std::tie(failed, got) = decode_all(*one, place, burst);
          for (std::size_t i = 0; i < kFiles; ++i) {
            if (got[i].values.empty()) continue;
            ASSERT_EQ(got[i].values, expected[i].values) << coder.name << ", place " << place;
          }
          got = decode_all(*one, 0, 0).second;
          for (std::size_t i = 0; i < kFiles; ++i)
            ASSERT_EQ(got[i].values, expected[i].values) << coder.name << ", behind " << place;
        }
      }
    }
  }
}

}  // namespace
}  // namespace penstock::storm
