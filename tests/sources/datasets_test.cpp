// The public functions that make datasets of sources, beyond what
// tests/conformance/sources_test.cpp and source_runs_test.cpp show of all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/image_records.h>
#include <penstock/internal/contents.h>
#include <penstock/penstock.h>
#include <penstock/sources.h>

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

TEST(DatasetFunctions, FromElement) {
  Iterator iterator = from_element({{"x", Tensor::scalar(7)}}).repeat(3).iterate();
  for (int i = 0; i < 3; ++i) EXPECT_EQ((*iterator.next())["x"].item<int>(), 7);
  EXPECT_TRUE(iterator.next().is_end());
}

TEST(DatasetFunctions, DigestsOfContents) {
  const test::TempFolder folder;
  const auto digest = [&](const std::string& pattern, std::size_t most = 4096) {
    return contents_digest(text_lines({folder / pattern}).shuffle({.buffer = 4}), most);
  };
  for (const char* name : {"a", "b", "c"}) {
    for (int i = 0; i < 10; ++i)
      folder.write(std::string(name) + "/" + std::to_string(i) + ".txt",
                   "some text of " + std::string(name) + "\n" + std::to_string(i));
  }
  folder.write("d/0.txt", "some text of a\n0");
  const std::uint64_t a = digest("a/*.txt");
  EXPECT_NE(a, 0U);
  EXPECT_EQ(digest("a/*.txt"), a);
  EXPECT_NE(digest("b/*.txt"), a) << "names and sizes are equal";
  EXPECT_EQ(digest("d/*.txt"), digest("a/0.txt")) << "whatever the folder is called";
  // The last byte of one file among many.
  for (int i = 0; i < 10; ++i)
    folder.write("c/" + std::to_string(i) + ".txt", "some text of a\n" + std::to_string(i));
  EXPECT_EQ(digest("c/*.txt"), a);
  folder.write("c/7.txt", "some text of a\nx");
  EXPECT_NE(digest("c/*.txt"), a);
  // Of two files, the first and the sixth are looked at.
  EXPECT_EQ(digest("c/*.txt", 2), digest("a/*.txt", 2));
  folder.write("c/5.txt", "some text of a\nx");
  EXPECT_NE(digest("c/*.txt", 2), digest("a/*.txt", 2));
}

}  // namespace
}  // namespace penstock
