// What inspect and verify make of bytes that anybody may have written.
#include <algorithm>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/penstock/shards/describe_element.h"
#include "tools/penstock/shards/example_view.h"
#include "tools/penstock/shards/format.h"
#include "tools/penstock/synth/faults.h"
#include "tools/penstock/synth/jpeg_encode.h"
#include "tools/penstock/synth/writer.h"

namespace penstock::tool {
namespace {

std::string message(int number, const std::string& body) {
  return std::string(1, static_cast<char>(number << 3 | 2)) +
         std::string(1, static_cast<char>(body.size())) + body;
}

/// {"a": ["xyz"], "b": [1, -2], "c": [0.5]} as TensorFlow writes it, the keys out of order.
std::string whole_example() {
  const std::string text = message(1, message(1, "xyz"));
  const std::string integers =
      message(3, message(1, "\x01\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
  const std::string floats = message(2, message(1, std::string("\0\0\0\x3f", 4)));
  return message(1, message(1, message(1, "b") + message(2, integers)) +
                        message(1, message(1, "a") + message(2, text)) +
                        message(1, message(1, "c") + message(2, floats)));
}

TEST(ExampleView, ListsFeatures) {
  const std::string record = whole_example();
  const auto features = view_example(record);
  ASSERT_TRUE(features);
  ASSERT_EQ(features->size(), 3U);
  EXPECT_EQ((*features)[0].key, "a");
  EXPECT_EQ((*features)[0].kind, 'b');
  EXPECT_EQ((*features)[0].bytes, "xyz");
  EXPECT_EQ((*features)[1].kind, 'i');
  EXPECT_EQ((*features)[1].count, 2U);
  EXPECT_EQ((*features)[1].number, 1);
  EXPECT_EQ((*features)[2].kind, 'f');
  EXPECT_EQ((*features)[2].number, 0.5);
}

TEST(ExampleView, SurvivesEveryCutAndAnyBytes) {
  const std::string record = whole_example();
  for (std::size_t n = 0; n < record.size(); ++n)
    EXPECT_FALSE(view_example(record.substr(0, n))) << n;
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = record;
    for (int k = 0; k < 3; ++k) damaged[random() % damaged.size()] = static_cast<char>(random());
    if (const auto features = view_example(damaged)) {
      for (const FeatureView& feature : *features) {
        EXPECT_LE(feature.bytes.size(), damaged.size());
        EXPECT_LE(feature.count, damaged.size());
      }
    }
    describe_bytes(damaged);
  }
}

TEST(DetectFormat, SurvivesAnyBytes) {
  std::mt19937 random(2);
  for (int i = 0; i < 2'000; ++i) {
    std::string head(random() % 1200, '\0');
    for (char& c : head) c = static_cast<char>(random());
    detect_format(head, head.size());
  }
  EXPECT_EQ(detect_format("", 0), Format::unknown);
  EXPECT_EQ(detect_format("a,b\n1,2\n", 8), Format::csv);
  EXPECT_EQ(detect_format("hello\n", 6), Format::lines);
  EXPECT_EQ(detect_format(std::string(512, '\0'), 512), Format::unknown);
}

TEST(ImageSize, ReadsHeadersAndNothingBeyondThem) {
  const std::string jpeg = encode_jpeg(make_picture(1, 2, 3, 10, 37, 53), {});
  EXPECT_EQ(image_size(jpeg), "37x53");
  for (std::size_t n = 0; n < 700; ++n) {
    const std::string size = image_size(jpeg.substr(0, n));
    EXPECT_TRUE(size.empty() || size == "37x53") << n;
  }
  std::mt19937 random(3);
  for (int i = 0; i < 2'000; ++i) {
    std::string damaged = jpeg.substr(0, 700);
    damaged[2 + random() % 600] = static_cast<char>(random());
    image_size(damaged);
  }
}

TEST(Faults, ChangeWhatTheySay) {
  const std::string jpeg = encode_jpeg(make_picture(1, 2, 3, 10, 37, 53), {});
  for (const std::string& fault : image_faults()) {
    Rng rng(1, 2, 3);
    const Damaged damaged = damage_image(fault, jpeg, rng);
    EXPECT_NE(damaged.bytes, jpeg) << fault;
    EXPECT_FALSE(damaged.detail.empty()) << fault;
    if (fault == "tenth") {
      EXPECT_EQ(damaged.bytes.size(), jpeg.size() / 10);
    }
    if (fault == "truncate" || fault == "tenth") {
      EXPECT_EQ(damaged.bytes, jpeg.substr(0, damaged.bytes.size()));
    }
    if (fault == "dimensions") {
      EXPECT_EQ(image_size(damaged.bytes), "65500x65500");
    }
  }
}

TEST(Writer, SplitsSamplesEvenly) {
  for (const auto& [count, shards] : {std::pair{0, 3}, {1, 3}, {3, 3}, {10, 4}, {11, 4}, {7, 1}}) {
    std::vector<int> sizes(static_cast<std::size_t>(shards));
    int last = 0;
    for (int i = 0; i < count; ++i) {
      const int shard =
          shard_of(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(count), shards);
      ASSERT_GE(shard, last);
      ASSERT_LT(shard, shards);
      ++sizes[static_cast<std::size_t>(last = shard)];
    }
    EXPECT_LE(*std::max_element(sizes.begin(), sizes.end()) -
                  *std::min_element(sizes.begin(), sizes.end()),
              1);
  }
}

}  // namespace
}  // namespace penstock::tool
