// In steady state the fused op allocates nothing of its own.

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/image.h>

#include "tests/support/context.h"
#include "tests/support/images.h"

namespace {

std::atomic<long> allocations{0};

}  // namespace

// Not inlined, or GCC takes malloc and free for a mismatched pair.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace penstock {
namespace {

long allocations_of(const ImageOps& ops, const std::vector<std::vector<std::byte>>& files) {
  const WorkOpPtr op = ops.op();
  const Spec spec = op->infer(Spec({{"image", DType::bytes, Shape()}}));
  const std::size_t stride =
      static_cast<std::size_t>(spec[0].shape.volume()) * size_of(spec[0].dtype);
  const BufferPtr slot = allocate_buffer(4 * stride);
  std::byte* base = slot->data();
  const Names* names = Names::intern(std::vector<std::string>{"image"});
  test::HeapContext context;
  std::vector<WorkItem> items(4);
  const auto run = [&](std::uint64_t first) {
    for (std::uint64_t i = 0; i < 4; ++i) {
      const std::vector<std::byte>& file = files[(first + i) % files.size()];
      items[i].ordinal = first + i;
      items[i].element.reset(names);
      items[i].element[0] =
          Tensor::bytes({reinterpret_cast<const char*>(file.data()), file.size()}, BufferPtr());
      items[i].row = Row(&base, &stride, i);
    }
    op->run(items, context);
    for (const WorkItem& item : items) EXPECT_TRUE(item.status.ok());
  };
  for (std::uint64_t i = 0; i < 400; i += 4) run(i);
  const long before = allocations;
  for (std::uint64_t i = 0; i < 400; i += 4) run(i);
  return allocations - before;
}

TEST(ImageOps, AllocateNothingInSteadyState) {
  std::vector<std::vector<std::byte>> files;
  files.push_back(
      test::make_jpeg(test::make_pixels(120, 150, 3), {.horizontal = 2, .vertical = 2}));
  files.push_back(test::make_jpeg(test::make_pixels(90, 200, 3)));
  files.push_back(test::make_jpeg(test::make_pixels(100, 100, 1)));
  const ImageOps decode = decode_image();
  EXPECT_EQ(allocations_of(decode.random_resized_crop(64).random_flip().normalize(), files), 0);
  EXPECT_EQ(allocations_of(decode.resize_short(70).center_crop(64, 64), files), 0);
  EXPECT_EQ(allocations_of(decode.random_pad_crop(64, 64, 4).random_flip(), files), 0);
  EXPECT_EQ(allocations_of(decode.resize(80, 90).center_crop(100, 100).resize(40, 40).color_jitter(
                               {0.4, 0.4, 0.4, 0.1}),
                           files),
            0);
}

}  // namespace
}  // namespace penstock
