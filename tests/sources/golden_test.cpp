// Files that TensorFlow and webdataset wrote, see tests/golden/write.py.
#include <penstock/sources.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/golden.h"
#include "tests/support/records.h"

namespace penstock {
namespace {

using ::testing::ElementsAre;

class TensorFlowFile : public ::testing::TestWithParam<const char*> {};

TEST_P(TensorFlowFile, HoldsTheExamplesThatWereWritten) {
  TFRecordOptions options;
  options.files = make_memory_file_system({{"f", test::read_golden(GetParam())}});
  const SourcePtr source = make_tfrecord_source({"f"}, options);
  const std::vector<test::ReadOutcome> records = test::read_source(*source);
  ASSERT_EQ(records.size(), 4u);
  FeatureSpec label{.key = "image/class/label", .dtype = DType::i64, .component = "label"};
  FeatureSpec none{.key = "none", .dtype = DType::f32};
  none.default_value = Tensor::scalar(4.5f);
  const WorkOpPtr op = parse_example({
      {.key = "image/encoded", .component = "image"},
      label,
      {.key = "box", .dtype = DType::f32, .shape = Shape({4})},
      {.key = "words", .shape = Shape({-1})},
      none,
      {.key = "empty", .dtype = DType::i64, .shape = Shape({-1})},
  });
  test::HeapContext context;
  std::vector<WorkItem> items(4);
  for (std::size_t i = 0; i < 4; ++i)
    items[i].element.set("record", Tensor::copy_bytes(records[i].text()));
  op->run(items, context);
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(items[i].status.ok()) << items[i].status.error().what();
    const Element& e = items[i].element;
    std::string image;
    for (std::size_t k = 0; k < 20; ++k) image.push_back(static_cast<char>(i + k));
    EXPECT_EQ(e["image"].bytes_at(), image);
    const std::int64_t labels[] = {1, -1'000'000, 1'000'000'000'000};
    EXPECT_EQ(e["label"].item<std::int64_t>(), labels[i]);
    EXPECT_THAT(e["box"].to_vector<float>(),
                ElementsAre(static_cast<float>(i), 0.5f, -1e-30f, 3e38f));
    ASSERT_EQ(e["words"].volume(), static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(e["words"].bytes_at(static_cast<std::int64_t>(i)), "w" + std::to_string(i));
    EXPECT_EQ(e["none"].item<float>(), 4.5f);
    EXPECT_EQ(e["empty"].shape(), Shape({0}));
  }
  EXPECT_EQ(items[3].status.error().cause(),
            "feature 'image/class/label': it is missing and has no default");
}

INSTANTIATE_TEST_SUITE_P(Golden, TensorFlowFile,
                         ::testing::Values("tensorflow-plain.hex", "tensorflow-gzip.hex",
                                           "tensorflow-zlib.hex"),
                         [](const auto& test) { return std::string(test.param + 11, 4); });

TEST(Golden, WebDatasetFile) {
  TarOptions options;
  options.files = make_memory_file_system({{"f", test::read_golden("webdataset.hex")}});
  const SourcePtr source = make_tar_source({"f"}, options);
  EXPECT_EQ(source->spec().to_string(),
            "{jpg: bytes [], json: bytes [], label: i64 [], key: bytes []}");
  std::vector<std::vector<std::string>> values;
  for (const test::ReadOutcome& outcome : test::read_source(*source))
    values.push_back(outcome.values);
  std::string deep;
  for (int i = 0; i < 40; ++i) deep += "deep/";
  using Values = std::vector<std::string>;
  EXPECT_THAT(values,
              ElementsAre(Values{"\xff\xd8 image 0", "{\"id\": 0}", "10", "some/folder/0000"},
                          Values{"\xff\xd8 image 1", "{\"id\": 1}", "9", "some/folder/0001"},
                          Values{"\xff\xd8 image 2", "{\"id\": 2}", "8", "some/folder/0002"},
                          Values{"image 3", "{}", "0", deep + "last"}));
}

}  // namespace
}  // namespace penstock
