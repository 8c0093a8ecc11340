#include <penstock/sources.h>

#include <malloc.h>

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/description.h>

#include "pipeline/io/fault.h"
#include "pipeline/io/memory.h"
#include "tests/support/data.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/log_capture.h"
#include "tests/support/records.h"
#include "tests/support/sanitizer.h"

namespace penstock {
namespace {

using test::expect_error;
using test::read_indices;
using test::read_source;
using test::ReadOutcome;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Images : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"train/dog/b.jpg", "train/cat/2.PNG", "train/cat/1.JPeG", "train/cat/notes.txt",
          "train/ant/x.jpg", "train/jpg", "other/y.jpg"}) {
      files_->add(name, std::string("bytes of ") + name);
    }
  }

  SourcePtr make(const std::string& where, const std::string& regex = "",
                 std::uint64_t limit = 1000) const {
    ImagesOptions options;
    options.files = files_;
    options.label_regex = regex;
    options.limits.max_record_bytes = limit;
    return make_images_source(where, options);
  }

  static std::vector<std::string> column(const Source& source, std::size_t i) {
    std::vector<std::string> texts;
    for (const ReadOutcome& outcome : read_source(source)) texts.push_back(outcome.values.at(i));
    return texts;
  }

  std::shared_ptr<MemoryFileSystem> files_ = std::make_shared<MemoryFileSystem>();
};

TEST_F(Images, ImagesBelowAFolder) {
  for (const char* folder : {"train", "train/"}) {
    const SourcePtr source = make(folder);
    EXPECT_THAT(column(*source, 2),
                ElementsAre("ant/x.jpg", "cat/1.JPeG", "cat/2.PNG", "dog/b.jpg"));
    EXPECT_THAT(column(*source, 1), ElementsAre("0", "1", "1", "2"));
    EXPECT_THAT(source->class_names(), ElementsAre("ant", "cat", "dog"));
    EXPECT_EQ(column(*source, 0)[1], "bytes of train/cat/1.JPeG");
    EXPECT_EQ(source->size(), 4U);
    EXPECT_EQ(source->record_bytes(3), std::string("bytes of train/dog/b.jpg").size());
    EXPECT_EQ(source->locate(3).to_string(), "train/dog/b.jpg @0 record 3");
    EXPECT_EQ(source->spec().to_string(), "{image: bytes [], label: i64 [], key: bytes []}");
  }
}

TEST_F(Images, MatchesOfAPattern) {
  const SourcePtr source = make("train/cat/*");
  EXPECT_THAT(column(*source, 2), ElementsAre("1.JPeG", "2.PNG", "notes.txt"));
  EXPECT_THAT(make("*/*.jpg")->class_names(), ElementsAre("other"));
  EXPECT_THAT(column(*make("train/dog/b.jpg"), 2), ElementsAre("b.jpg"));
}

TEST_F(Images, LabelsByExpression) {
  const SourcePtr by_name = make("train", "^(.)\\.");
  EXPECT_THAT(by_name->class_names(), ElementsAre("1", "2", "b", "x"));
  const SourcePtr by_path = make("train", "train/(.)[a-z]*/");
  EXPECT_THAT(by_path->class_names(), ElementsAre("a", "c", "d"));
  EXPECT_THAT(column(*by_path, 1), ElementsAre("0", "1", "1", "2"));
}

/// Returns class names and labels as "ant cat: 0 1 1".
std::string classes_of(const Source& source) {
  std::string text;
  for (const std::string& name : source.class_names()) text += (text.empty() ? "" : " ") + name;
  text += ':';
  for (const ReadOutcome& outcome : read_source(source)) text += ' ' + outcome.values.at(1);
  return text;
}

TEST_F(Images, ClassByTheFirstFolder) {
  const test::LogCapture log;
  for (const char* name : {"tiny/n02/images/1.jpg", "tiny/n01/images/2.jpg", "tiny/n01/a/b/3.jpg",
                           "parts/cat/front/1.jpg", "parts/dog/back/2.jpg", "parts/dog/3.jpg",
                           "flat/x/1.jpg", "flat/2.jpg"})
    files_->add(name, "x");
  EXPECT_EQ(classes_of(*make("tiny")), "n01 n02: 0 0 1");
  EXPECT_EQ(log.count("tiny: the first folder below it is the class of an image, which makes 2 "
                      "classes; by its parent folder there would be 2 classes (choose by "
                      "--label-depth 1, --label-depth 0 or --label-regex)"),
            1U);
  EXPECT_EQ(classes_of(*make("parts/")), "cat dog: 0 1 1");
  EXPECT_EQ(log.count("makes 2 classes; by its parent folder there would be 3 classes"), 1U);
  EXPECT_EQ(classes_of(*make("flat")), "flat x: 0 1")
      << "without a folder, the parent is the class";
  EXPECT_EQ(classes_of(*make("tiny/*/images/*")), "images: 0 0") << "a pattern has parent folders";
  EXPECT_EQ(classes_of(*make("{tiny,parts}")), "b back dog front images: 0 4 4 3 2 1")
      << "and so have several folders";
  EXPECT_EQ(log.count("the first folder below"), 2U);
}

TEST_F(Images, DepthOfTheClass) {
  const test::LogCapture log;
  for (const char* name : {"deep/a/x/p/1.jpg", "deep/a/y/p/2.jpg", "deep/b/x/3.jpg", "deep/4.jpg"})
    files_->add(name, "x");
  const auto at = [&](const std::string& where, std::int64_t depth, const std::string& regex = "") {
    ImagesOptions options;
    options.files = files_;
    options.label_depth = depth;
    options.label_regex = regex;
    return make_images_source(where, options);
  };
  EXPECT_EQ(classes_of(*at("deep", 0)), "deep p x: 0 1 1 2");
  EXPECT_EQ(classes_of(*at("deep", 1)), "a b deep: 2 0 0 1");
  EXPECT_EQ(classes_of(*at("deep", 2)), "deep x y: 0 1 2 1");
  EXPECT_EQ(classes_of(*at("deep", 3)), "deep p x: 0 1 1 2");
  EXPECT_EQ(classes_of(*at("deep/**", 1)), "a b deep: 2 0 0 1")
      << "below the part without wildcard";
  EXPECT_EQ(classes_of(*at("deep/a/**", 1)), "x y: 0 1");
  EXPECT_EQ(log.lines().size(), 0U) << "what was chosen is no news";
  expect_error(ErrorCode::invalid_argument, "both given", [&] { at("deep", 1, "(.)"); });
  expect_error(ErrorCode::invalid_argument, "negative", [&] { at("deep", -1); });
  const auto described = [&](std::int64_t depth) {
    Description description;
    at("deep", depth)->describe(description);
    return description.to_string();
  };
  EXPECT_NE(described(0), described(1));
  EXPECT_EQ(described(0), described(3)) << "the same labels";
}

TEST_F(Images, OneClassForAll) {
  const test::LogCapture log;
  for (const char* name :
       {"one/1.jpg", "one/2.jpg", "same/c/a/1.jpg", "same/c/2.jpg", "lone/1.jpg"})
    files_->add(name, "x");
  for (const char* where : {"one", "same", "lone", "one/*.jpg"}) make(where);
  make("same/c", "(j)pg$");
  const std::string tail = " (--label-depth and --label-regex choose another)";
  EXPECT_EQ(log.count("one: all 2 images have one class, \"one\"" + tail), 1U);
  EXPECT_EQ(log.count("same: all 2 images have one class, \"c\"" + tail), 1U);
  EXPECT_EQ(log.count("one/*.jpg: all 2 images have one class, \"one\"" + tail), 1U);
  EXPECT_EQ(log.count("same/c: all 2 images have one class, \"j\"" + tail), 1U);
  EXPECT_EQ(log.count("have one class"), 4U) << "a single image has no other";
}

TEST_F(Images, BadExpressions) {
  expect_error(ErrorCode::invalid_argument, "'('", [&] { make("train", "("); });
  expect_error(ErrorCode::invalid_argument, "one group, not 0", [&] { make("train", "abc"); });
  expect_error(ErrorCode::invalid_argument, "one group, not 2", [&] { make("train", "(a)(b)"); });
  expect_error(ErrorCode::invalid_argument, "3 of 4 names: train/ant/x.jpg, train/cat/2.PNG",
               [&] { make("train", "^(1)"); });
}

TEST_F(Images, NothingToRead) {
  files_->add("empty/readme", "");
  expect_error(ErrorCode::not_found, "empty", [&] { make("empty"); });
  expect_error(ErrorCode::not_found, "nowhere/*.jpg", [&] { make("nowhere/*.jpg"); });
  expect_error(ErrorCode::not_found, "gone.jpg", [&] { make("gone.jpg"); });
}

TEST_F(Images, ChangedFile) {
  const SourcePtr source = make("train");
  files_->add("train/cat/1.JPeG", "others of the same size");
  files_->remove("train/dog/b.jpg");
  const std::vector<ReadOutcome> outcomes = read_source(*source);
  EXPECT_EQ(outcomes[0].text(), "bytes of train/ant/x.jpg");
  EXPECT_EQ(outcomes[1].error->code(), ErrorCode::changed);
  EXPECT_THAT(outcomes[1].error->what(), HasSubstr("train/cat/1.JPeG"));
  EXPECT_EQ(outcomes[2].text(), "bytes of train/cat/2.PNG");
  EXPECT_EQ(outcomes[3].error->code(), ErrorCode::changed);
  EXPECT_THAT(outcomes[3].error->what(), HasSubstr("train/dog/b.jpg"));
}

TEST_F(Images, OversizedFile) {
  const SourcePtr source = make("train", "", 23);
  std::vector<ReadItem> items(2);
  items[0].index = 0;
  items[1].index = 1;
  test::HeapContext context;
  source->read(items, context);
  EXPECT_EQ(items[0].status.error().code(), ErrorCode::out_of_range);
  EXPECT_EQ(items[1].status.error().code(), ErrorCode::out_of_range);
  EXPECT_EQ(context.allocations, 0U);
  EXPECT_TRUE(read_source(*make("train", "", 24))[0].error == std::nullopt);
}

TEST_F(Images, BadFirstFile) {
  const auto counting = std::make_shared<FaultFileSystem>(files_, FaultOptions{});
  ImagesOptions options;
  options.files = counting;
  make_images_source("train", options);
  // The last operation of construction, and the one behind it: the first file is opened.
  options.files = std::make_shared<FaultFileSystem>(
      files_, FaultOptions{.fail_nth = counting->operations(), .fail_count = 2});
  const SourcePtr source = make_images_source("train", options);
  EXPECT_TRUE(source->blocking());
  const auto got = read_source(*source);
  ASSERT_EQ(got.size(), 4U);
  EXPECT_TRUE(got[0].error);
  for (std::size_t i = 1; i < got.size(); ++i) EXPECT_FALSE(got[i].error) << i;
}

TEST_F(Images, Fingerprint) {
  const auto described = [&] {
    Description description;
    make("train")->describe(description);
    return description.to_string();
  };
  const std::string before = described();
  EXPECT_THAT(before, HasSubstr("files=4"));
  files_->add("train/ant/x.jpg", "bytes of train/ant/x.jp.");
  EXPECT_EQ(described(), before);
  files_->add("train/ant/x.jpg", "longer than it was before, by much");
  EXPECT_NE(described(), before);
}

TEST_F(Images, LifetimeOfKeys) {
  std::vector<ReadItem> items(1);
  items[0].index = 1;
  test::HeapContext context;
  make("train")->read(items, context);
  EXPECT_EQ(items[0].element["key"].bytes_at(), "cat/1.JPeG");
}

/// A folder of many images that takes no memory.
class ManyNames final : public FileSystem {
 public:
  static constexpr int kImages = 200'000;
  static std::string path(int i) {
    return "photos/class" + std::to_string(i % 10) + "/" + std::to_string(1'000'000 + i) + ".jpg";
  }

  std::string name() const override { return "many"; }
  std::shared_ptr<File> open(const std::string& path) override {
    throw Error(ErrorCode::not_found, "nothing here", {.shard = path});
  }
  FileInfo info(const std::string& path) override {
    return {100, 1, std::hash<std::string>()(path), 2, 3};
  }
  bool is_directory(const std::string& path) override { return path == "photos"; }
  std::vector<std::string> list(const std::string& folder) override {
    throw Error(ErrorCode::not_found, "list_each does this", {.shard = folder});
  }
  void list_each(const std::string&, const Found& found) override {
    for (int i = kImages - 1; i >= 0; --i) found(path(i));
    found(path(0));
  }
  std::vector<std::string> glob(const std::string& pattern, bool) override { return {pattern}; }
};

std::size_t allocated() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST(ManyImages, TakeFortyBytesBeyondTheirKey) {
  if (test::kAddressSanitizer) GTEST_SKIP() << "its allocator counts nothing here";
  ImagesOptions options;
  options.files = std::make_shared<ManyNames>();
  options.index_folder = "-";
  const std::size_t before = allocated();
  const SourcePtr source = make_images_source("photos", options);
  const std::size_t taken = allocated() - before;
  ASSERT_EQ(source->size(), static_cast<std::uint64_t>(ManyNames::kImages));
  EXPECT_EQ(source->locate(1).shard, ManyNames::path(10));
  EXPECT_EQ(source->locate(ManyNames::kImages - 1).shard, ManyNames::path(ManyNames::kImages - 1));
  constexpr std::size_t kKey = 18;  // class0/1000000.jpg
  EXPECT_LE(taken, (kKey + 40) * ManyNames::kImages + (64 << 10));
}

TEST(ImagesOnDisk, RealPhotographs) {
  const std::string folder = test::data_path("imagenet-sample");
  PENSTOCK_NEED_DATA(folder);
  ImagesOptions options;
  options.label_regex = "^(n\\d+)_";
  const SourcePtr source = make_images_source(folder, options);
  EXPECT_EQ(source->size(), 300U);
  EXPECT_EQ(source->class_names().size(), 300U);
  EXPECT_EQ(source->class_names().front(), "n01440764");
  for (const ReadOutcome& outcome : read_source(*source)) {
    ASSERT_FALSE(outcome.error);
    ASSERT_TRUE(outcome.text().starts_with("\xff\xd8"));
  }
}

TEST(ImagesOnDisk, FilesFromAFolder) {
  const test::TempFolder folder;
  for (int i = 0; i < 600; ++i) {
    folder.write("c" + std::to_string(i % 7) + "/" + std::to_string(i) + ".jpg", test::noise(i));
  }
  const SourcePtr source = make_images_source(folder.path(), {});
  EXPECT_EQ(source->size(), 600U);
  EXPECT_EQ(source->class_names().size(), 7U);
  std::size_t bytes = 0;
  for (const ReadOutcome& outcome : read_source(*source)) bytes += outcome.text().size();
  EXPECT_EQ(bytes, 600U * 599U / 2);
}

// What a folder has beside images.
TEST_F(Images, SaysWhatIsLeftOutByExtension) {
  const test::LogCapture log;
  files_->add("mixed/a.jpg", "a");
  files_->add("mixed/b.PNG", "b");
  files_->add("mixed/c.webp", "c");
  files_->add("mixed/d.JFIF", "d");
  files_->add("mixed/e.webp", "e");
  files_->add("mixed/.hidden", "f");
  EXPECT_EQ(make("mixed")->size(), 2U);
  EXPECT_EQ(log.count("mixed: 3 of 5 files: .jfif (1), .webp (2) are not read"), 1U);
  EXPECT_EQ(make("mixed")->size(), 2U);
  EXPECT_EQ(log.count("are not read"), 1U) << "once";
  files_->add("none/x.webp", "c");
  files_->add("none/README", "c");
  expect_error(ErrorCode::not_found,
               "no .jpg, .jpeg or .png below this folder; 2 of 2 files: .webp (1), no extension "
               "(1) are not read (none)",
               [&] { (void)make("none"); });
}

TEST(Sources, NameASchemeThatTheyDoNotKnow) {
  const auto refused = [](const std::string& scheme, const std::function<void()>& open) {
    expect_error(ErrorCode::invalid_argument, scheme + " is not supported by this build: ", open);
  };
  refused("abfs://", [] { (void)make_images_source("abfs://bucket/photos", {}); });
  refused("oci://", [] { (void)make_tar_source({"oci://bucket/train-*.tar"}, {}); });
  refused("ftp://", [] { (void)make_tfrecord_source({"ftp://host/a.tfrecord"}, {}); });
  refused("hdfs://", [] { (void)make_csv_source({"hdfs://host/a.csv"}, {}); });
  refused("hf://", [] { (void)make_idx_source("hf://b/images", "", {}); });
  expect_error(ErrorCode::invalid_argument, "give the path alone, /data/a.tar",
               [] { (void)make_tar_source({"file:///data/a.tar"}, {}); });
  // What only looks so is a path.
  for (const char* path : {"a:b", "://x", "x/s3://bucket", "a b://c"})
    expect_error(ErrorCode::not_found, path, [&] { (void)make_tar_source({path}, {}); });
}

}  // namespace
}  // namespace penstock
