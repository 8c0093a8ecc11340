// Every source through the public functions and the engine: alone, in batches (whose rows the
// sources write themselves) and shuffled, always the same records.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include <penstock/image_records.h>
#include <penstock/penstock.h>
#include <penstock/sources.h>

#include "pipeline/io/memory.h"
#include "tests/support/files.h"

namespace penstock {
namespace {

// {"a", "b"} would be std::string("a", "b"): a range of two unrelated pointers.
template <typename Options>
concept TakeLists = requires(Options options) {
  images({"a", "b"}, options);
}
|| requires(Options options) {
  images({"a", "b", "c"}, options);
}
|| requires(Options options) {
  idx({"a", "b"}, "", options);
}
|| requires {
  pack_images({"a", "b"}, "c", Options());
};
template <typename Options>
concept TakeOne = requires(Options options, std::string name) {
  images({"a"}, options);
  images("a", options);
  images({name}, options);
  idx({"a"}, "", options);
};
static_assert(!TakeLists<ImagesOptions> && !TakeLists<FileOptions> && !TakeLists<ImagePackOptions>);
static_assert(TakeOne<ImagesOptions>);

using test::noise;
using ::testing::ElementsAre;

std::string text_of(const Tensor& tensor) {
  if (tensor.dtype() == DType::bytes) return std::string(tensor.bytes_at());
  const Tensor flat = tensor.contiguous() ? tensor : tensor.clone();
  return {reinterpret_cast<const char*>(flat.data()), flat.nbytes()};
}

using Rows = std::vector<std::vector<std::string>>;

Rows rows_of(const Dataset& dataset, bool batched) {
  Rows rows;
  Iterator iterator = dataset.iterate({.seed = 5, .threads = 2});
  while (true) {
    Next next = iterator.next();
    if (next.is_end()) return rows;
    if (next.is_error()) {
      ADD_FAILURE() << next.error().what();
      return rows;
    }
    const std::int64_t count = batched ? next->valid_rows : 1;
    for (std::int64_t i = 0; i < count; ++i) {
      std::vector<std::string> row;
      for (std::size_t c = 0; c < next->size(); ++c) {
        row.push_back(text_of(batched ? (*next)[c][i] : (*next)[c]));
      }
      rows.push_back(std::move(row));
    }
  }
}

std::string npy_of(std::int64_t rows) {
  std::string header =
      "{'descr': '>i4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", 3)}";
  header.resize(118, ' ');
  std::string length = {118, 0};
  return std::string("\x93NUMPY\1\0", 8) + length + header +
         noise(static_cast<std::size_t>(rows) * 12);
}

FileSystemPtr files() {
  static const FileSystemPtr made = [] {
    auto memory = std::make_shared<MemoryFileSystem>();
    std::string cifar;
    std::string csv = "id,word,x\n";
    for (int i = 0; i < 23; ++i) {
      memory->add(
          "images/" + std::string(i % 2 == 0 ? "even/" : "odd/") + std::to_string(i) + ".jpg",
          noise(100, static_cast<std::uint64_t>(i)));
      cifar += static_cast<char>(i % 10) + noise(3072, static_cast<std::uint64_t>(i));
      csv += std::to_string(i) + ",\"w\"\"" + std::to_string(i) + "\",0.5\n";
    }
    memory->add("cifar.bin", cifar);
    memory->add("table.csv", csv);
    memory->add("a.npy", npy_of(13));
    memory->add("b.npy", npy_of(10));
    memory->add("images.idx", std::string({0, 0, 8, 2, 0, 0, 0, 23, 0, 0, 0, 5}) + noise(115));
    memory->add("labels.idx", std::string({0, 0, 8, 1, 0, 0, 0, 23}) + noise(23));
    memory->add("records.bin", noise(23 * 7));
    return memory;
  }();
  return made;
}

template <typename Options = FileOptions>
Options in_memory() {
  Options options;
  options.files = files();
  return options;
}

struct Case {
  std::string name;
  std::function<Dataset()> make;
  std::string spec;
};

Element columns() {
  std::vector<float> values(23 * 2);
  std::vector<std::string> words;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  for (int i = 0; i < 23; ++i) words.push_back("word " + std::to_string(i));
  return {{"v", Tensor::of<float>({23, 2}, values)},
          {"w", Tensor::of_bytes(std::vector<std::string_view>(words.begin(), words.end()))}};
}

Dataset counted() {
  const auto make = [] {
    return [next = std::int64_t{0}](Element& out) mutable {
      out.set("n", Tensor::scalar(next));
      return next++ < 23;
    };
  };
  return generate(make, Spec({{"n", DType::i64, {}}}));
}

std::vector<Case> cases() {
  return {
      {"images", [] { return images("images", in_memory<ImagesOptions>()); },
       "{image: bytes [], label: i64 [], key: bytes []}"},
      {"cifar10", [] { return cifar10({"cifar.bin"}, in_memory()); },
       "{image: u8 [32,32,3], label: i64 []}"},
      {"csv",
       [] {
         auto options = in_memory<CsvOptions>();
         options.columns = {{.name = "x", .dtype = DType::f32, .default_value = {}},
                            {.name = "word", .dtype = DType::bytes, .default_value = {}},
                            {.name = "id", .dtype = DType::i64, .default_value = {}}};
         return csv({"table.csv"}, options);
       },
       "{x: f32 [], word: bytes [], id: i64 []}"},
      {"text_lines", [] { return text_lines({"table.csv"}, in_memory()).skip(1); },
       "{line: bytes []}"},
      {"npy", [] { return npy({"?.npy"}, in_memory()); }, "{value: i32 [3]}"},
      {"idx", [] { return idx("images.idx", "labels.idx", in_memory()); },
       "{image: u8 [5], label: i64 []}"},
      {"fixed_records",
       [] { return fixed_records({"records.bin"}, 7, in_memory<FixedRecordOptions>()); },
       "{record: u8 [7]}"},
      {"range", [] { return range(10, 33); }, "{value: i64 []}"},
      {"tensors", [] { return tensors(columns()); }, "{v: f32 [2], w: bytes []}"},
      {"synthetic",
       [] { return synthetic({.count = 23, .bytes = {.a = 70}, .cost_us = {.a = 1}}); },
       "{data: bytes [], index: i64 []}"},
      {"synthetic_images",
       [] { return synthetic({.count = 23, .image_height = 16, .image_width = 16}); },
       "{image: bytes [], label: i64 [], key: bytes []}"},
      {"generate", counted, "{n: i64 []}"},
  };
}

class Datasets : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Kinds, Datasets, testing::ValuesIn(cases()),
                         [](const auto& tested) { return tested.param.name; });

TEST_P(Datasets, DeliverTheSameAloneAndInBatches) {
  const Dataset dataset = GetParam().make();
  EXPECT_EQ(dataset.spec().to_string(), GetParam().spec);
  const Rows rows = rows_of(dataset, false);
  ASSERT_EQ(rows.size(), 23U);
  EXPECT_EQ(rows_of(dataset.batch(5), true), rows);
  EXPECT_EQ(rows_of(dataset.batch(23), true), rows);
  EXPECT_EQ(rows_of(dataset, false), rows);
}

TEST_P(Datasets, ShuffledTheyAreTheSameRecords) {
  const Dataset dataset = GetParam().make();
  Rows rows = rows_of(dataset, false);
  const ShuffleOptions buffered{.buffer = 7};
  Rows shuffled = rows_of(dataset.shuffle(buffered).batch(4), true);
  EXPECT_NE(shuffled, rows);
  std::ranges::sort(rows);
  std::ranges::sort(shuffled);
  EXPECT_EQ(shuffled, rows);
  if (GetParam().name == "generate") return;  // no index, so no perfect shuffle
  shuffled = rows_of(dataset.shuffle().batch(4), true);
  std::ranges::sort(shuffled);
  EXPECT_EQ(shuffled, rows);
}

TEST(DatasetFunctions, ClassNamesThroughAnyGraph) {
  const Dataset dataset = images("images", in_memory<ImagesOptions>());
  EXPECT_THAT(class_names(dataset), ElementsAre("even", "odd"));
  EXPECT_THAT(class_names(zip({range(23), dataset}).shuffle().take(3).batch(2)),
              ElementsAre("even", "odd"));
  EXPECT_EQ(class_names(cifar10({"cifar.bin"}, in_memory())).size(), 10U);
  EXPECT_TRUE(class_names(range(3)).empty());
}

TEST(DatasetFunctions, FromElementIsOne) {
  const Rows rows = rows_of(from_element({{"x", Tensor::scalar(7)}}).repeat(3), false);
  EXPECT_EQ(rows.size(), 3U);
}

}  // namespace
}  // namespace penstock
