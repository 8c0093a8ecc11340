// Hidden files, folders and members are no data.
#include <penstock/sources.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/internal/find_files.h>

#include "pipeline/io/memory.h"
#include "tests/sources/tar_shards.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/log_capture.h"
#include "tests/support/tar.h"

namespace penstock {
namespace {

using test::tar_end;
using test::tar_member;
using test::Values;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class HiddenFiles : public testing::Test {
 protected:
  HiddenFiles() {
    for (const char* name : {"cat/1.jpg", "dog/2.png"}) files_->add(folder_ + name, "x");
  }

  SourcePtr make(const std::string& where, bool hidden = false) const {
    ImagesOptions options;
    options.files = files_;
    options.hidden = hidden;
    return make_images_source(where, options);
  }
  static std::vector<std::string> keys(const Source& source) {
    std::vector<std::string> texts;
    for (const auto& outcome : test::read_source(source)) texts.push_back(outcome.values.at(2));
    return texts;
  }

  // Its own name in each test, because a message is logged once for a folder. Where it lies in a
  // hidden folder itself, that does not count.
  const std::string folder_ = std::string("/data/.kept/") +
                              testing::UnitTest::GetInstance()->current_test_info()->name() + "/";
  std::shared_ptr<MemoryFileSystem> files_ = std::make_shared<MemoryFileSystem>();
};

TEST_F(HiddenFiles, AreSkippedAndCounted) {
  const test::LogCapture log;
  std::size_t count = 0;
  for (const char* name :
       {".ipynb_checkpoints/1-checkpoint.jpg", "cat/.ipynb_checkpoints/2.jpg", ".git/a/b/c.png",
        "cat/._1.jpg", ".DS_Store", "dog/.thumb/.x/3.JPEG", ".jpg"}) {
    files_->add(folder_ + name, "x");
    ++count;
  }
  const SourcePtr source = make(folder_);
  EXPECT_THAT(source->class_names(), ElementsAre("cat", "dog"));
  EXPECT_THAT(keys(*source), ElementsAre("cat/1.jpg", "dog/2.png"));
  EXPECT_EQ(log.count(std::to_string(count) + " hidden files are skipped, such as .git/a/b/c.png "),
            1U);
  EXPECT_EQ(log.lines().size(), 1U) << "they are no files of another format";
  EXPECT_EQ(make(folder_, true)->size(), 2U + count - 1) << "all but .DS_Store";
}

TEST_F(HiddenFiles, AreNoneWhereDotsAreElsewhere) {
  const test::LogCapture log;
  for (const char* name : {"a.b/1.jpg", "..c/2.jpg", "d./3.jpg", "cat/e..jpg"})
    files_->add(folder_ + name, "x");
  EXPECT_THAT(make(folder_)->class_names(), ElementsAre("a.b", "cat", "d.", "dog"));
  EXPECT_EQ(log.count("1 hidden file is skipped, ..c/2.jpg (--hidden reads it)"), 1U);
}

TEST_F(HiddenFiles, AloneAreNoImages) {
  files_->add(folder_ + "only/.a/1.jpg", "x");
  test::expect_error(ErrorCode::not_found, "no .jpg, .jpeg or .png below this folder",
                     [&] { make(folder_ + "only"); });
  EXPECT_EQ(make(folder_ + "only", true)->size(), 1U);
}

TEST_F(HiddenFiles, MatchAPatternThatHasTheDot) {
  for (const char* name : {".hid/1.jpg", "cat/._1.jpg", "cat/.x/y.jpg"})
    files_->add(folder_ + name, "x");
  EXPECT_THAT(keys(*make(folder_ + ".hid/*.jpg")), ElementsAre("1.jpg"));
  EXPECT_THAT(keys(*make(folder_ + ".h*/*")), ElementsAre(".hid/1.jpg"));
  EXPECT_THAT(keys(*make(folder_ + "*/._*.jpg")), ElementsAre("cat/._1.jpg"));
  EXPECT_THAT(keys(*make(folder_ + "cat/.[a-z]/*")), ElementsAre(".x/y.jpg"));
  EXPECT_THAT(keys(*make(folder_ + "*/*.jpg")), ElementsAre("cat/1.jpg"));
  EXPECT_THAT(keys(*make(folder_ + "*/?_1.jpg", true)), ElementsAre("cat/._1.jpg"));
  EXPECT_THAT(keys(*make(folder_ + "*/*.jpg", true)),
              ElementsAre(".hid/1.jpg", "cat/._1.jpg", "cat/1.jpg"));
}

TEST_F(HiddenFiles, OnDisk) {
  const test::TempFolder folder;
  for (const char* name : {"cat/1.jpg", "cat/.git/2.jpg", ".cache/3.jpg", "cat/._1.jpg"})
    folder.write(name, "x");
  std::filesystem::create_symlink("nowhere", folder / "cat/.#1.jpg");  // a lock of Emacs
  ImagesOptions options;
  EXPECT_EQ(make_images_source(folder.path(), options)->size(), 1U);
  std::filesystem::remove(folder / "cat/.#1.jpg");
  EXPECT_EQ(make_images_source(folder / "*/.*.jp?", options)->size(), 1U);
  options.hidden = true;
  EXPECT_EQ(make_images_source(folder.path() + "/", options)->size(), 4U);
  EXPECT_EQ(make_images_source(folder / "*/*.jpg", options)->size(), 3U);
}

TEST(IsHidden, LooksBelowTheFolderAlone) {
  const auto taken = [](std::vector<std::string> paths, const std::string& folder) {
    std::erase_if(paths, [&](const std::string& path) { return !is_hidden(path, folder); });
    return paths;
  };
  EXPECT_THAT(taken({"./a", "./.b"}, "."), ElementsAre("./.b"));
  EXPECT_THAT(taken({"../a", "../.b/c"}, ".."), ElementsAre("../.b/c"));
  EXPECT_THAT(taken({"/.x/.a", "/.x/a"}, "/.x/"), ElementsAre("/.x/.a"));
  EXPECT_THAT(taken({"/.x/a"}, "/"), ElementsAre("/.x/a"));
  EXPECT_THAT(taken({"s3://b/.k/a", "s3://b/k/.a"}, "s3://b/.k"), ElementsAre("s3://b/k/.a"));
  EXPECT_THAT(taken({"s3://b/k"}, "s3://b"), IsEmpty());
}

/// Returns a source of one shard with that name.
SourcePtr shard_of(const std::string& name, const std::string& members, TarOptions options = {}) {
  options.files = make_memory_file_system({{name, members + tar_end()}});
  return make_tar_source({name}, options);
}

TEST(HiddenMembers, AreSkippedAndCounted) {
  const test::LogCapture log;
  const std::string shard = tar_member("./._cat", "") + tar_member("cat/._1.jpg", "mac") +
                            tar_member("cat/1.jpg", "one") + tar_member("cat/._1.cls", "mac") +
                            tar_member("cat/1.cls", "5") + tar_member("cat/.x.jpg", "x") +
                            tar_member("__MACOSX/cat/._2.jpg", "mac");
  const SourcePtr source = shard_of("mac.tar", shard);
  EXPECT_THAT(test::read(*source), ElementsAre(Values{"one", "5", "cat/1"}));
  EXPECT_EQ(log.count("mac.tar: 5 hidden members are skipped (--hidden reads them)"), 1U);
  shard_of("plain.tar", tar_member("a.b/1.jpg", "1") + tar_member(".git/2.jpg", "2"));
  EXPECT_EQ(log.lines().size(), 1U);
}

TEST(HiddenMembers, AreReadOnRequest) {
  TarOptions options;
  options.hidden = true;
  const SourcePtr source =
      shard_of("all.tar",
               tar_member("d/._1.jpg", "mac") + tar_member("d/1.jpg", "one") +
                   tar_member("d/.x.jpg", "x") + tar_member("d/.jpg", "no key"),
               options);
  EXPECT_THAT(test::read(*source),
              ElementsAre(Values{"mac", "0", "d/._1"}, Values{"one", "0", "d/1"},
                          Values{"x", "0", "d/.x"}));
}

TEST(HiddenMembers, DecideNoLayout) {
  for (const char* name : {"._a", "._1.json", ".DS_Store", "cat/._1.txt"}) {
    const SourcePtr source = shard_of(name, tar_member(name, "x") + tar_member("1.jpg", "1"));
    EXPECT_EQ(source->spec().to_string(), "{image: bytes [], label: i64 [], key: bytes []}")
        << name;
  }
}

/// A kept index is of the option that it was made with.
TEST(HiddenMembers, AreInAnIndexOfTheirOwn) {
  const test::TempFolder folder;
  const std::string path =
      folder.write("big.tar", tar_member("._1.jpg", "mac") +
                                  tar_member("1.jpg", std::string(5 << 20, 'x')) + tar_end());
  TarOptions options;
  options.index_folder = folder / "index";
  std::filesystem::create_directory(options.index_folder);
  EXPECT_EQ(make_tar_source({path}, options)->size(), 1U);
  for (const bool hidden : {true, false, true}) {
    options.hidden = hidden;
    EXPECT_EQ(make_tar_source({path}, options)->size(), hidden ? 2U : 1U);
  }
}

}  // namespace
}  // namespace penstock
