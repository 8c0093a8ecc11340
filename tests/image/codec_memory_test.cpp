// What decoding takes of the heap is what it asks the budget for, but for tables and a few rows.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

#include <malloc.h>

#include <gtest/gtest.h>

#include <penstock/image.h>

#include "pipeline/codec/codec.h"
#include "pipeline/core/codec_budget.h"
#include "pipeline/jpeg/decoder.h"
#include "pipeline/jpeg/records/make.h"
#include "tests/support/images.h"

namespace {

std::atomic<long> live{0};
std::atomic<long> most{0};

void* count(void* memory) {
  if (memory == nullptr) return nullptr;
  const auto bytes = static_cast<long>(::malloc_usable_size(memory));
  const long now = live.fetch_add(bytes) + bytes;
  for (long seen = most.load(); now > seen && !most.compare_exchange_weak(seen, now);) {
  }
  return memory;
}
void discount(void* memory) {
  if (memory != nullptr) live.fetch_sub(static_cast<long>(::malloc_usable_size(memory)));
}

}  // namespace

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

void* malloc(std::size_t size) {
  return count(__libc_malloc(size));
}
void* calloc(std::size_t number, std::size_t size) {
  return count(__libc_calloc(number, size));
}
void* realloc(void* memory, std::size_t size) {
  discount(memory);
  void* const moved = __libc_realloc(memory, size);
  count(moved == nullptr && size > 0 ? memory : moved);
  return moved;
}
void* memalign(std::size_t alignment, std::size_t size) {
  return count(__libc_memalign(alignment, size));
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return count(__libc_memalign(alignment, size));
}
int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
  *out = count(__libc_memalign(alignment, size));
  return *out == nullptr ? ENOMEM : 0;
}
void free(void* memory) {
  discount(memory);
  __libc_free(memory);
}
}

namespace penstock {
namespace {

using test::JpegOptions;
using test::make_jpeg;
using test::make_pixels;

/// Notes the most that was taken at once.
class CountingContext final : public WorkContext, public CodecBudget {
 public:
  BufferPtr allocate(std::size_t bytes) override {
    std::erase_if(results_, [](const BufferPtr& one) { return !one; });
    const long before = live.load();
    results_.push_back(allocate_buffer(bytes));
    result_bytes += static_cast<std::uint64_t>(live.load() - before);
    return results_.back();
  }
  void take(std::uint64_t bytes) override {
    taken += bytes;
    most_taken = std::max(most_taken, taken);
  }
  void give(std::uint64_t bytes) noexcept override {
    ASSERT_GE(taken, bytes);
    taken -= bytes;
  }

  std::uint64_t taken = 0;
  std::uint64_t most_taken = 0;
  std::uint64_t result_bytes = 0;

 private:
  std::vector<BufferPtr> results_;
};

struct Case {
  std::string name;
  std::vector<std::byte> file;
  ImageOps ops;
  bool exact = false;  // what it asks for is not much more than it takes
};

struct Growth {
  long most = 0;  // while the image was made
  long kept = 0;  // behind it
  std::uint64_t asked = 0;
  std::uint64_t result = 0;
};

Growth growth_of(const WorkOp& op, const std::vector<std::byte>& file) {
  static const Names* const names = Names::intern(std::vector<std::string>{"image"});
  CountingContext context;
  std::vector<WorkItem> items(1);
  items[0].element.reset(names);
  items[0].element[0] =
      Tensor::bytes({reinterpret_cast<const char*>(file.data()), file.size()}, BufferPtr());
  const long before = live.load();
  most.store(before);
  op.run(items, context);
  EXPECT_TRUE(items[0].status.ok()) << items[0].status.error().what();
  Growth growth{most.load() - before, live.load() - before, context.most_taken,
                context.result_bytes};
  EXPECT_EQ(context.taken, 0U);
  return growth;
}

JpegOptions progressive(int factor) {
  return {.horizontal = factor, .vertical = factor, .progressive = true};
}

std::vector<std::byte> turned(std::vector<std::byte> jpeg) {
  // APP1 with an orientation of 6 behind SOI.
  static constexpr unsigned char kExif[] = {
      0xff, 0xe1, 0,    34,   'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8,
      0,    1,    0x01, 0x12, 0,   3,   0,   0,   0, 1, 0,   6,   0, 0,  0, 0, 0, 0};
  const auto* bytes = reinterpret_cast<const std::byte*>(kExif);
  jpeg.insert(jpeg.begin() + 2, bytes, bytes + sizeof(kExif));
  return jpeg;
}

std::vector<Case> cases() {
  const ImageOps decode = decode_image();
  const ImageOps crop = decode.resize(96, 96);
  const ImageOps jittered =
      decode.resize(900, 900).color_jitter({0.4, 0.4, 0.4, 0.1}).resize(64, 64);
  const auto large = make_pixels(1500, 1700, 3);
  const auto gray = make_pixels(1500, 1700, 1);
  const auto cmyk = make_pixels(1100, 1300, 4);
  DecodeOptions oriented;
  oriented.orient = true;
  std::vector<Case> all;
  const auto add = [&all](std::string name, std::vector<std::byte> file, const ImageOps& ops,
                          bool exact = false) {
    all.push_back({std::move(name), std::move(file), ops, exact});
  };
  add("baseline 4:4:4", make_jpeg(large), decode);
  add("baseline 4:2:0", make_jpeg(large, {.horizontal = 2, .vertical = 2}), decode);
  add("baseline, resized", make_jpeg(large, {.horizontal = 2, .vertical = 2}), crop);
  add("progressive 4:4:4", make_jpeg(large, progressive(1)), decode, true);
  add("progressive 4:2:0", make_jpeg(large, progressive(2)), decode, true);
  add("progressive, resized", make_jpeg(large, progressive(2)), crop, true);
  add("progressive gray", make_jpeg(gray, progressive(1)), decode, true);
  add("progressive 4x2", make_jpeg(large, {.progressive = true, .factors = {4, 2, 1, 1, 1, 1}}),
      decode, true);
  add("arithmetic", make_jpeg(large, {.arithmetic = true}), decode);
  add("restarts", make_jpeg(large, {.restart_interval = 7}), decode);
  add("CMYK", make_jpeg(cmyk), decode);
  add("CMYK, progressive", make_jpeg(cmyk, {.progressive = true}), decode, true);
  add("turned", turned(make_jpeg(large)), decode_image("image", oriented), true);
  add("turned, resized", turned(make_jpeg(large)),
      decode_image("image", oriented).resize(600, 600));
  add("jittered", make_jpeg(large), jittered);
  add("enlarged", make_jpeg(make_pixels(100, 120, 3)), decode.resize(1800, 2000), false);
  for (const bool interlaced : {false, true}) {
    test::PngOptions options;
    options.interlaced = interlaced;
    const std::string name = interlaced ? "interlaced PNG" : "PNG";
    add(name, test::make_png(1500, 1700, large.values, options), decode, interlaced);
    add(name + ", resized", test::make_png(1500, 1700, large.values, options), crop, interlaced);
    options.depth = 16;
    std::vector<std::uint8_t> wide(2 * large.values.size());
    add(name + " of 16 bits", test::make_png(1500, 1700, wide, options), decode);
  }
  for (const auto kind : {jpeg::RecordKind::coefficients, jpeg::RecordKind::indexed}) {
    jpeg::MakeOptions options;
    options.kind = kind;
    const auto record = jpeg::make_record(make_jpeg(large, progressive(2)), options).record;
    add(std::string("record, ") + jpeg::name_of(kind), record, decode);
  }
  return all;
}

class CodecMemory : public testing::TestWithParam<jpeg::Backend> {};

TEST_P(CodecMemory, IsAskedForBefore) {
  // Tables, libpng's and libjpeg's own structures, inflate's window: not more for larger images.
  constexpr long kTables = 1200L << 10;
  constexpr long kUnasked = 3L * static_cast<long>(image::kUnaskedBytes);
  jpeg::choose(GetParam());
  const std::vector<Case> all = cases();
  for (const Case& one : all) {
    SCOPED_TRACE(one.name);
    const WorkOpPtr op = one.ops.op();
    for (int time = 0; time < 2; ++time) {  // also with what the first has left
      const Growth growth = growth_of(*op, one.file);
      const auto asked = static_cast<long>(growth.asked + growth.result);
      EXPECT_LE(growth.most, asked + kUnasked + kTables);
      EXPECT_LE(growth.kept, static_cast<long>(growth.result) + kUnasked + kTables);
      if (one.exact) {
        EXPECT_LE(asked, growth.most + growth.most / 3);
      }
      std::printf("%-22s asked %8ld, took %8ld, result %8ld\n", one.name.c_str(),
                  static_cast<long>(growth.asked), growth.most - static_cast<long>(growth.result),
                  static_cast<long>(growth.result));
    }
  }
}

TEST_P(CodecMemory, IsNotAskedForOfOrdinaryImages) {
  jpeg::choose(GetParam());
  const ImageOps decode = decode_image();
  for (const ImageOps& ops : {decode.random_resized_crop(224).normalize(),
                              decode.resize_short(256).center_crop(224, 224)}) {
    const WorkOpPtr op = ops.op();
    for (const int factor : {1, 2}) {
      const auto file =
          make_jpeg(make_pixels(375, 500, 3), {.horizontal = factor, .vertical = factor});
      EXPECT_EQ(growth_of(*op, file).asked, 0U);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CodecMemory,
                         testing::Values(jpeg::Backend::own, jpeg::Backend::libjpeg_turbo));

}  // namespace
}  // namespace penstock
