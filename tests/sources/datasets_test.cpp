// The public functions that make datasets of sources, beyond what
// tests/conformance/sources_test.cpp and source_runs_test.cpp show of all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/image_records.h>
#include <penstock/penstock.h>
#include <penstock/sources.h>

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

using ::testing::ElementsAre;

TEST(DatasetFunctions, ClassNamesThroughAnyGraph) {
  std::vector<std::pair<std::string, std::string>> contents{{"cifar.bin", std::string(3073, '\1')}};
  for (int i = 0; i < 23; ++i) {
    const std::string folder = i % 2 == 0 ? "even/" : "odd/";
    contents.emplace_back("images/" + folder + std::to_string(i) + ".jpg", "bytes");
  }
  ImagesOptions options;
  options.files = make_memory_file_system(contents);
  const Dataset dataset = images("images", options);
  EXPECT_THAT(class_names(dataset), ElementsAre("even", "odd"));
  EXPECT_THAT(class_names(zip({range(23), dataset}).shuffle().take(3).batch(2)),
              ElementsAre("even", "odd"));
  EXPECT_EQ(class_names(cifar10({"cifar.bin"}, options)).size(), 10U);
  EXPECT_TRUE(class_names(range(3)).empty());
}

TEST(DatasetFunctions, FromElementIsOne) {
  Iterator iterator = from_element({{"x", Tensor::scalar(7)}}).repeat(3).iterate();
  for (int i = 0; i < 3; ++i) EXPECT_EQ((*iterator.next())["x"].item<int>(), 7);
  EXPECT_TRUE(iterator.next().is_end());
}

}  // namespace
}  // namespace penstock
