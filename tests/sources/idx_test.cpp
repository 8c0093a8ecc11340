#include <penstock/sources.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/io/memory.h"
#include "tests/support/data.h"
#include "tests/support/deflate.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/records.h"

namespace penstock {
namespace {

using test::expect_error;
using test::gzip;
using test::noise;
using test::read_indices;
using test::read_source;
using test::ReadOutcome;
using ::testing::HasSubstr;

std::string idx_file(int type, const std::vector<std::uint32_t>& dims, const std::string& data) {
  std::string out = {0, 0, static_cast<char>(type), static_cast<char>(dims.size())};
  for (const std::uint32_t dim : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(dim >> shift);
  }
  return out + data;
}

SourcePtr source_of(const std::string& images, const std::optional<std::string>& labels = {}) {
  const auto files = std::make_shared<MemoryFileSystem>();
  files->add("images", images);
  if (labels) files->add("labels", *labels);
  FileOptions options;
  options.files = files;
  return make_idx_source("images", labels ? "labels" : "", options);
}

// Each test once on a plain and once on a compressed file.
class Idx : public testing::TestWithParam<bool> {
 protected:
  static std::string packed(const std::string& bytes) { return GetParam() ? gzip(bytes) : bytes; }
};
INSTANTIATE_TEST_SUITE_P(Forms, Idx, testing::Bool(),
                         [](const auto& tested) { return tested.param ? "Gzip" : "Plain"; });

/// Labels in QMNIST's form: big-endian i32 of these classes and seven more columns.
std::string qmnist_labels(const std::vector<int>& classes, std::uint32_t columns = 8) {
  std::string data;
  for (const int label : classes) {
    for (std::uint32_t column = 0; column < columns; ++column) {
      const auto value = static_cast<std::uint32_t>(column == 0 ? label : 1000 + label);
      for (int shift = 24; shift >= 0; shift -= 8) data += static_cast<char>(value >> shift);
    }
  }
  return idx_file(0x0c, {static_cast<std::uint32_t>(classes.size()), columns}, data);
}

TEST_P(Idx, LabelsOfQmnist) {
  const std::string images = packed(idx_file(8, {3, 2, 2}, noise(12)));
  const SourcePtr source = source_of(images, packed(qmnist_labels({5, 0, 9})));
  EXPECT_EQ(source->spec().to_string(), "{image: u8 [2,2], label: i64 []}");
  std::vector<std::string> labels;
  for (const ReadOutcome& outcome : read_source(*source)) labels.push_back(outcome.values.at(1));
  EXPECT_EQ(labels, (std::vector<std::string>{"5", "0", "9"}));
  // Other matrices are refused, with the form that is read.
  for (const std::string& other :
       {qmnist_labels({5, 0, 9}, 7), qmnist_labels({5, 0, 9}, 1), idx_file(8, {3, 8}, noise(24))})
    expect_error(ErrorCode::invalid_argument, "QMNIST's, i32 with 8 columns",
                 [&] { source_of(images, packed(other)); });
  for (const int label : {10, -1})
    expect_error(ErrorCode::invalid_argument, "row 1 has " + std::to_string(label), [&] {
      source_of(images, packed(qmnist_labels({5, label, 9})));
    });
  expect_error(ErrorCode::invalid_argument, "2 labels, but 3 images", [&] {
    source_of(images, packed(qmnist_labels({5, 9})));
  });
}

TEST(IdxLabels, CompressedByXzAreNamed) {
  expect_error(ErrorCode::data_loss, "compressed by xz", [] {
    source_of(idx_file(8, {1, 2, 2}, noise(4)), std::string("\xfd"
                                                            "7zXZ\0\0\4",
                                                            8));
  });
}

TEST_P(Idx, ImagesAndLabels) {
  const std::string pixels = noise(3 * 4);
  const SourcePtr source =
      source_of(packed(idx_file(8, {3, 2, 2}, pixels)), packed(idx_file(8, {3}, {7, 0, '\xff'})));
  EXPECT_EQ(source->spec().to_string(), "{image: u8 [2,2], label: i64 []}");
  const std::vector<ReadOutcome> outcomes = read_source(*source);
  ASSERT_EQ(outcomes.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(outcomes[i].text(), pixels.substr(4 * i, 4));
  EXPECT_EQ(outcomes[0].values[1], "7");
  EXPECT_EQ(outcomes[2].values[1], "255");
  EXPECT_EQ(read_indices(*source, {2, 1})[1].text(), pixels.substr(4, 4));
  EXPECT_EQ(source->locate(2).to_string(), "images @24 record 2");
}

TEST_P(Idx, BigEndianValues) {
  const SourcePtr source = source_of(packed(idx_file(0x0c, {1, 2}, {0, 0, 1, 2, -1, -1, -1, -2})));
  EXPECT_EQ(source->spec().to_string(), "{image: i32 [2]}");
  std::vector<ReadItem> items(1);
  test::HeapContext context;
  source->read(items, context);
  EXPECT_THAT(items[0].element[0].to_vector<std::int32_t>(), testing::ElementsAre(258, -2));
  const SourcePtr labelled =
      source_of(packed(idx_file(8, {2}, "ab")), packed(idx_file(0x0b, {2}, {-1, -2, 1, 0})));
  EXPECT_EQ(read_source(*labelled)[0].values[1], "-2");
  EXPECT_EQ(read_source(*labelled)[1].values[1], "256");
}

TEST_P(Idx, EveryType) {
  const std::pair<int, DType> types[] = {{0x08, DType::u8},  {0x09, DType::i8},
                                         {0x0b, DType::i16}, {0x0c, DType::i32},
                                         {0x0d, DType::f32}, {0x0e, DType::f64}};
  for (const auto& [code, dtype] : types) {
    const SourcePtr source = source_of(packed(idx_file(code, {2, 3}, noise(6 * size_of(dtype)))));
    EXPECT_EQ(source->spec()[0].dtype, dtype);
    EXPECT_EQ(read_source(*source).size(), 2U);
  }
}

TEST_P(Idx, FewerRowsThanPromised) {
  for (std::size_t bytes = 0; bytes <= 12; ++bytes) {
    const SourcePtr source =
        source_of(packed(idx_file(8, {3, 4}, noise(bytes))), packed(idx_file(8, {3}, "abc")));
    const std::vector<ReadOutcome> outcomes = read_source(*source);
    ASSERT_EQ(outcomes.size(), std::min<std::size_t>(bytes / 4 + 1, 3));
    EXPECT_EQ(outcomes.back().error.has_value(), bytes < 12);
    if (bytes < 12) {
      EXPECT_THAT(outcomes.back().error->cause(), HasSubstr("truncated at byte"));
    }
  }
  for (std::size_t labels = 0; labels <= 3; ++labels) {
    const SourcePtr source =
        source_of(packed(idx_file(8, {3, 4}, noise(12))), packed(idx_file(8, {3}, noise(labels))));
    const std::vector<ReadOutcome> outcomes = read_source(*source);
    ASSERT_EQ(outcomes.size(), std::min<std::size_t>(labels + 1, 3));
    if (labels < 3) {
      EXPECT_THAT(outcomes.back().error->what(), HasSubstr("labels"));
    }
  }
}

TEST_P(Idx, Rejects) {
  const std::string labels = packed(idx_file(8, {2}, "ab"));
  expect_error(ErrorCode::invalid_argument, "2 labels, but 3 images",
               [&] { source_of(packed(idx_file(8, {3}, "abc")), labels); });
  expect_error(ErrorCode::invalid_argument, "integers, not f32 [2]", [&] {
    source_of(packed(idx_file(8, {2}, "ab")), packed(idx_file(0x0d, {2}, noise(8))));
  });
  expect_error(ErrorCode::invalid_argument, "u8 [2,1]", [&] {
    source_of(packed(idx_file(8, {2}, "ab")), packed(idx_file(8, {2, 1}, noise(2))));
  });
  expect_error(ErrorCode::data_loss, "not an IDX file",
               [&] { source_of(packed(idx_file(7, {2}, "ab"))); });
  expect_error(ErrorCode::data_loss, "not an IDX file", [&] { source_of(packed("text, no IDX")); });
  expect_error(ErrorCode::data_loss, "0 dimensions",
               [&] { source_of(packed(idx_file(8, {}, ""))); });
  expect_error(ErrorCode::data_loss, "7 dimensions", [&] {
    source_of(packed(idx_file(8, {1, 1, 1, 1, 1, 1, 1}, "a")));
  });
  constexpr std::uint32_t kMost = 0xffffffff;
  expect_error(ErrorCode::out_of_range, "images", [&] {
    source_of(packed(idx_file(0x0e, {1, kMost, kMost}, "a")));
  });
  expect_error(ErrorCode::out_of_range, "images", [&] {
    source_of(packed(idx_file(8, {1, kMost, kMost, kMost, 0}, "")));
  });
  // Just what unsigned numbers can count, and shapes can't.
  expect_error(ErrorCode::out_of_range, "images", [&] {
    source_of(packed(idx_file(8, {1, kMost, kMost, 0}, "")));
  });
  EXPECT_EQ(read_source(*source_of(packed(idx_file(8, {2, kMost, 0}, "")))).size(), 2U);
  expect_error(ErrorCode::out_of_range, "exceed the limit", [&] {
    source_of(packed(idx_file(8, {1, kMost}, "a")));
  });
}

TEST_P(Idx, HostileCount) {
  const SourcePtr source = source_of(packed(idx_file(8, {0xffffffff, 1000}, noise(1500))));
  const std::vector<ReadOutcome> outcomes = read_source(*source);
  ASSERT_EQ(outcomes.size(), 2U);
  EXPECT_TRUE(outcomes[1].error);
}

TEST(Idx, HeaderCutAtEveryByte) {
  const std::string whole = idx_file(8, {1, 2, 2}, "abcd");
  for (std::size_t cut = 0; cut < 16; ++cut) {
    expect_error(ErrorCode::data_loss, "truncated at byte " + std::to_string(cut),
                 [&] { source_of(whole.substr(0, cut)); });
  }
}

TEST(Idx, DamagedGzip) {
  const std::string whole = gzip(idx_file(8, {3, 100}, noise(300)));
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    EXPECT_TRUE(test::thrown_by([&] { source_of(whole.substr(0, cut)); })) << cut;
  }
  std::string damaged = whole;
  damaged[damaged.size() - 6] ^= 1;  // the checksum
  expect_error(ErrorCode::data_loss, "images", [&] { source_of(damaged); });
}

TEST(Idx, GarbageBehindGzip) {
  const std::string whole = gzip(idx_file(8, {3, 100}, noise(300)));
  for (const std::string& garbage : {std::string("x"), noise(50), noise(200'000)})
    expect_error(ErrorCode::data_loss, "trailing garbage", [&] { source_of(whole + garbage); });
  EXPECT_EQ(source_of(whole + std::string(512, '\0'))->size(), 3U);
}

TEST(Idx, NamesEveryMissingFile) {
  FileOptions options;
  options.files = std::make_shared<MemoryFileSystem>();
  const auto error = test::thrown_by([&] { make_idx_source("i", "l", options); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::not_found);
  EXPECT_THAT(error->what(), testing::AllOf(HasSubstr("i"), HasSubstr("l")));
}

TEST(IdxOnDisk, RealDigits) {
  const std::string images = test::data_path("mnist-t10k-images-idx3-ubyte.gz");
  const std::string labels = test::data_path("mnist-t10k-labels-idx1-ubyte.gz");
  PENSTOCK_NEED_DATA(images);
  const SourcePtr source = make_idx_source(images, labels, {});
  EXPECT_EQ(source->size(), 10'000U);
  EXPECT_EQ(source->spec().to_string(), "{image: u8 [28,28], label: i64 []}");
  std::vector<int> counts(10);
  for (const ReadOutcome& outcome : read_source(*source)) {
    ASSERT_FALSE(outcome.error);
    ASSERT_EQ(outcome.text().size(), 784U);
    ++counts.at(std::stoul(outcome.values[1]));
  }
  EXPECT_THAT(counts, testing::ElementsAre(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009));
  EXPECT_EQ(read_source(*source, 1)[0].values[1], "7");
}

}  // namespace
}  // namespace penstock
