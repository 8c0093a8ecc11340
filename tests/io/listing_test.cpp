// How folders on this machine are listed, and which of their files match a pattern.
#include <penstock/file_system.h>

#include <functional>
#include <optional>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <penstock/limits.h>

#include "tests/support/files.h"
#include "tests/support/log_capture.h"
#include "tests/support/sanitizer.h"

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PosixFileSystem, FollowsLinksButNotInCircles) {
  const test::TempFolder folder;
  folder.write("real/x.jpg", "x");
  ASSERT_EQ(::symlink(folder.path().c_str(), (folder / "real/circle").c_str()), 0);
  ASSERT_EQ(::symlink((folder / "real/x.jpg").c_str(), (folder / "link.jpg").c_str()), 0);
  ASSERT_EQ(::symlink("nowhere", (folder / "dangling.jpg").c_str()), 0);
  EXPECT_THAT(default_file_system()->list(folder.path()),
              ElementsAre(folder / "dangling.jpg", folder / "link.jpg", folder / "real/x.jpg"))
      << "a file that is missing is nobody's to leave out";
  EXPECT_THAT(default_file_system()->glob(folder / "*.jpg"),
              ElementsAre(folder / "dangling.jpg", folder / "link.jpg"));
}

/// Folders that each hold a file and links to all others.
void make_linked_folders(const test::TempFolder& folder, int count) {
  for (int i = 0; i < count; ++i) folder.write(std::to_string(i) + "/x.jpg", "x");
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      const std::string link = std::to_string(from) + "/to" + std::to_string(to);
      if (from != to) {
        ASSERT_EQ(::symlink((folder / std::to_string(to)).c_str(), (folder / link).c_str()), 0);
      }
    }
  }
}

TEST(PosixFileSystem, FoldersThatLinkToEachOther) {
  const test::TempFolder few;
  make_linked_folders(few, 3);
  // Each folder by itself, by way of one other, and by way of both others in either order.
  EXPECT_EQ(default_file_system()->list(few.path()).size(), 3U * 5);
  const test::TempFolder many;
  make_linked_folders(many, 12);  // more files than there are bytes in any memory
  try {
    (void)default_file_system()->list(many.path());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_range);
    EXPECT_THAT(error.what(), HasSubstr("more than 64 ways (folder_ways)"));
  }
  // As many ways as are allowed, and one more.
  for (const int links : {kMostWays - 1, kMostWays}) {
    const test::TempFolder folder;
    folder.write("real/x.jpg", "x");
    for (int i = 0; i < links; ++i)
      ASSERT_EQ(::symlink("real", (folder / std::to_string(i)).c_str()), 0);
    const auto list = [&] { return default_file_system()->list(folder.path()).size(); };
    if (links < kMostWays) {
      EXPECT_EQ(list(), static_cast<std::size_t>(kMostWays));
    } else {
      EXPECT_THROW((void)list(), Error);
    }
  }
}

TEST(PosixFileSystem, Globs) {
  const test::TempFolder folder;
  folder.write(".hidden", "");
  folder.write("seen", "");
  folder.write("a[1].tar", "");
  folder.write("a1.tar", "");
  auto& files = *default_file_system();
  EXPECT_THAT(files.glob(folder / "*en"), ElementsAre(folder / "seen"));
  EXPECT_THAT(files.glob(folder / ".h*"), ElementsAre(folder / ".hidden"));
  EXPECT_THAT(files.glob(folder / "a[1].tar"), ElementsAre(folder / "a[1].tar"));
  EXPECT_THAT(files.glob(folder / "a?.tar"), ElementsAre(folder / "a1.tar"));
  EXPECT_THAT(files.glob(folder.path() + "//s*"), ElementsAre(folder / "seen"));
}

TEST(PosixFileSystem, GlobsOfUnlistableFolders) {
  if (test::kAddressSanitizer) GTEST_SKIP() << "UndefinedBehaviorSanitizer wants descriptors";
  const test::TempFolder folder;
  folder.write("a/x.txt", "");
  folder.write("b/x.txt", "");
  ASSERT_EQ(::symlink("loop.txt", (folder / "a/loop.txt").c_str()), 0);
  auto& files = *default_file_system();
  const std::string pattern = folder / "*/*.txt";
  EXPECT_THAT(files.glob(pattern), ElementsAre(folder / "a/x.txt", folder / "b/x.txt"));
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  std::optional<Error> error;
  try {
    (void)files.glob(pattern);
  } catch (const Error& thrown) {
    error = thrown;
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ErrorCode::resource_exhausted);
  EXPECT_EQ(error->where().shard, folder.path());
}

/// Lists a folder of which parts may not be read, as a user without privileges.
class Forbidden : public ::testing::Test {
 protected:
  Forbidden() {
    folder_.write("open/x.txt", "");
    for (const auto& [name, mode] : shut_) folder_.write(std::string(name) + "/x.txt", "");
    ::chmod(folder_.path().c_str(), 0755);
    for (const auto& [name, mode] : shut_) ::chmod((folder_ / name).c_str(), mode);
  }
  ~Forbidden() override {
    for (const auto& [name, mode] : shut_) ::chmod((folder_ / name).c_str(), 0755);
  }

  /// Returns what `list` returns, or nothing if privileges can't be dropped.
  static std::vector<std::string> listed(const std::function<std::vector<std::string>()>& list) {
    const uid_t self = ::geteuid();
    if (self == 0 && ::seteuid(65534) != 0) return {};
    std::vector<std::string> found;
    EXPECT_NO_THROW(found = list());
    EXPECT_EQ(::seteuid(self), 0);
    return found;
  }
  void expect_warnings(const test::LogCapture& log) const {
    for (const auto& [name, mode] : shut_)
      EXPECT_EQ(log.count("skipped: can't list: Permission denied (" + (folder_ / name) + ")"), 1U)
          << name;
    EXPECT_EQ(log.lines().size(), shut_.size());
  }

  // Without any permission, without that to read names, and without that to open files by them.
  const std::vector<std::pair<const char*, mode_t>> shut_ = {
      {"lost+found", 0}, {"open/unreadable", 0311}, {"open/b/unsearchable", 0644}};
  const test::TempFolder folder_;
};

TEST_F(Forbidden, FoldersInLists) {
  test::LogCapture log;
  const std::vector<std::string> found =
      listed([&] { return default_file_system()->list(folder_.path()); });
  if (found.empty()) GTEST_SKIP() << "everything may be read";
  EXPECT_THAT(found, ElementsAre(folder_ / "open/x.txt"));
  expect_warnings(log);
}

TEST_F(Forbidden, FoldersInPatterns) {
  test::LogCapture log;
  std::vector<std::string> found;
  for (const char* pattern : {"*/*.txt", "open/*/*.txt", "open/*/*/*.txt"})
    for (const std::string& path :
         listed([&] { return default_file_system()->glob(folder_ / pattern); }))
      found.push_back(path);
  if (found.empty()) GTEST_SKIP() << "everything may be read";
  EXPECT_THAT(found, ElementsAre(folder_ / "open/x.txt"));
  expect_warnings(log);
}

TEST_F(Forbidden, FolderItself) {
  bool thrown = false;
  (void)listed([&]() -> std::vector<std::string> {
    for (const auto& [name, mode] : shut_) {
      EXPECT_THROW((void)default_file_system()->list(folder_ / name), Error) << name;
      thrown = true;
    }
    return {};
  });
  if (!thrown) GTEST_SKIP() << "everything may be read";
}

}  // namespace
}  // namespace penstock
