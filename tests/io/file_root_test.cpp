// Files below one folder: nothing else can be read, listed or found out about, whatever the paths
// and the links in the folder are.
#include "pipeline/io/file_root.h"

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include "pipeline/io/posix_files.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace penstock::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kOutside = "outside the served folder";

struct Row {
  const char* io;
  Beneath how;
};
std::ostream& operator<<(std::ostream& to, const Row& row) {
  return to << row.io << (row.how == Beneath::kernel ? " by openat2" : " by hand");
}

/// A folder `in` with files, and one `out` beside it.
class FolderRoot : public testing::TestWithParam<Row> {
 protected:
  FolderRoot() {
    for (const char* name : {"in/a.tar", "in/t1.tar", "in/t2.tar", "in/deep/er/x.jpg"})
      folder_.write(name, std::string("bytes of ") + name);
    folder_.write("out/secret-name", "secret bytes");
    folder_.write("inside-not/secret-name", "secret bytes");
    files_ = below(root());
  }
  static FileSystemPtr below(const std::string& root) {
    return make_local_file_system(GetParam().io, folder_root(root, GetParam().how));
  }
  std::string root() const { return folder_ / "in"; }
  void link(const std::string& target, const std::string& name) const {
    std::filesystem::create_symlink(target, root() + "/" + name);
  }
  std::string read(const std::string& path) const {
    const auto bytes = files_->open(path)->read_all(1 << 20);
    return as_text(bytes);
  }
  /// Expects that every function refuses the path, and that the errors show nothing else.
  void expect_outside(const std::string& path) const {
    SCOPED_TRACE(path);
    const std::vector<std::function<void()>> acts = {
        [&] { files_->open(path); },
        [&] { files_->info(path); },
        [&] { files_->is_directory(path); },
        [&] { files_->list(path); },
        [&] { files_->glob(path + "/*"); },
        [&] { files_->glob(path + "/**/*"); },
        [&] { files_->read_whole(path, {}, nullptr); },
    };
    for (const auto& act : acts) {
      try {
        act();
        ADD_FAILURE() << "no error";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::not_found);
        EXPECT_THAT(error.what(), HasSubstr(kOutside));
        EXPECT_THAT(error.what(), Not(HasSubstr("secret")));
      }
    }
  }

  const TempFolder folder_;
  FileSystemPtr files_;
};

TEST_P(FolderRoot, FilesInTheFolder) {
  for (const std::string& path :
       std::vector<std::string>{"a.tar", "./a.tar", "deep/../a.tar", "deep/er/../../a.tar",
                                root() + "/a.tar", root() + "//deep/..//a.tar"}) {
    EXPECT_EQ(read(path), "bytes of in/a.tar") << path;
    EXPECT_EQ(files_->info(path).size, 17U) << path;
  }
  EXPECT_THAT(files_->glob("t*.tar"), ElementsAre("t1.tar", "t2.tar"));
  EXPECT_THAT(files_->glob("./t?.tar"), ElementsAre("./t1.tar", "./t2.tar"));
  EXPECT_THAT(files_->glob(root() + "/t*.tar"),
              ElementsAre(root() + "/t1.tar", root() + "/t2.tar"));
  EXPECT_THAT(files_->glob("**/*.jpg"), ElementsAre("deep/er/x.jpg"));
  EXPECT_THAT(files_->glob("*/er/*"), ElementsAre("deep/er/x.jpg"));
  EXPECT_THAT(files_->glob("none/*"), IsEmpty());
  EXPECT_THAT(files_->list(root() + "/deep"), ElementsAre(root() + "/deep/er/x.jpg"));
  EXPECT_THAT(files_->list("deep"), ElementsAre("deep/er/x.jpg"));
  EXPECT_EQ(files_->list(".").size(), 4U);
  EXPECT_TRUE(files_->is_directory("deep"));
  EXPECT_FALSE(files_->is_directory("a.tar"));
  EXPECT_FALSE(files_->is_directory("none"));
  expect_error(ErrorCode::not_found, "No such file", [&] { files_->open("none"); });
  expect_error(ErrorCode::not_found, "a.tar/", [&] { files_->open("a.tar/"); });
}

TEST_P(FolderRoot, PathsOutside) {
  for (const std::string& path : std::vector<std::string>{
           "..", "../out", "deep/../../out", "deep/../..", "/", "/etc", "/etc/passwd", "../in/deep",
           "http://127.0.0.1:1/a", "s3://bucket/a", folder_ / "out", folder_ / "inside-not",
           root() + "/../out", folder_.path()})
    expect_outside(path);
  for (const char* pattern : {"../*", "../out/*", "*/../../*", "*/../../out/*", "../o*", "/*",
                              "/e*/pass*", "http://127.0.0.1:1/*", "./../*", "**/../../../*"})
    expect_error(ErrorCode::not_found, kOutside, [&] { files_->glob(pattern); });
}

TEST_P(FolderRoot, Links) {
  link("a.tar", "same");
  link("deep/er", "two");
  link("../in/a.tar", "around");  // leaves the folder on its way
  link(root() + "/deep/er/x.jpg", "absolute");
  link("two/x.jpg", "chain");
  link("/etc/passwd", "file");
  link("../out", "folder");
  link("loop", "loop");
  link("nothing", "dangling");
  link("/nothing/here", "dangling-outside");
  EXPECT_EQ(read("same"), "bytes of in/a.tar");
  EXPECT_EQ(read("two/x.jpg"), "bytes of in/deep/er/x.jpg");
  EXPECT_EQ(read("absolute"), "bytes of in/deep/er/x.jpg");
  EXPECT_EQ(read("chain"), "bytes of in/deep/er/x.jpg");
  EXPECT_EQ(read("two/../../a.tar"), "bytes of in/a.tar") << "above where the link leads";
  EXPECT_THAT(files_->glob("two/*"), ElementsAre("two/x.jpg"));
  for (const char* path : {"around", "file", "folder", "folder/secret-name", "dangling-outside"})
    expect_error(ErrorCode::not_found, kOutside, [&] { files_->open(path); });
  for (const char* path : {"loop", "dangling"})
    expect_error(ErrorCode::not_found, path, [&] { files_->open(path); });
  // A run that lists such a folder elsewhere follows the links. So this is an error.
  for (const std::string& path : {std::string("."), root()})
    expect_error(ErrorCode::not_found, kOutside, [&] { files_->list(path); });
  for (const char* pattern : {"*", "f*", "folder/*", "folder/secret*", "**/*"})
    expect_error(ErrorCode::not_found, kOutside, [&] { files_->glob(pattern); });
}

TEST_P(FolderRoot, Writes) {
  expect_error(ErrorCode::invalid_argument, "read-only", [&] { files_->create("b"); });
  expect_error(ErrorCode::invalid_argument, "read-only", [&] { files_->remove("a.tar"); });
  EXPECT_EQ(read("a.tar"), "bytes of in/a.tar");
}

TEST_P(FolderRoot, FoldersWithOtherNames) {
  std::filesystem::create_directory_symlink(root(), folder_ / "alias");
  for (const std::string& name : {folder_ / "alias", folder_ / "alias/", folder_ / "out/../in"}) {
    files_ = below(name);
    EXPECT_EQ(read(root() + "/a.tar"), "bytes of in/a.tar");
    EXPECT_EQ(read(std::filesystem::path(name).lexically_normal() / "a.tar").size(), 17U) << name;
    expect_outside(folder_ / "out");
  }
  expect_error(ErrorCode::not_found, "no such folder", [&] { below(folder_ / "none"); });
  expect_error(ErrorCode::not_found, "no such folder", [&] { below(root() + "/a.tar"); });
  files_ = below("/");
  EXPECT_EQ(read(root() + "/a.tar"), "bytes of in/a.tar");
  EXPECT_EQ(read(folder_ / "out/secret-name"), "secret bytes");
}

// The link changes between any two system calls.
TEST_P(FolderRoot, LinksThatFlip) {
  folder_.write("in/inner/secret-name", "inner bytes");
  std::filesystem::create_symlink("inner", folder_ / "in/to-in");
  std::filesystem::create_symlink("../out", folder_ / "in/to-out");
  link("inner", "flips");
  std::atomic<bool> stop{false};
  std::thread flipping([&] {
    for (int i = 0; !stop; ++i) {
      std::filesystem::create_symlink(i % 2 == 0 ? "../out" : "inner", folder_ / "in/next");
      std::filesystem::rename(folder_ / "in/next", root() + "/flips");
    }
  });
  int inner = 0, refused = 0;
  for (int i = 0; i < 2000 || inner == 0 || refused == 0; ++i) {
    try {
      EXPECT_EQ(read("flips/secret-name"), "inner bytes");
      for (const std::string& found : files_->glob("flips/*"))
        EXPECT_EQ(found, "flips/secret-name");
      ++inner;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("flips"));
      ++refused;
    }
  }
  stop = true;
  flipping.join();
}

INSTANTIATE_TEST_SUITE_P(Each, FolderRoot,
                         testing::Values(Row{"pread", Beneath::kernel}, Row{"pread", Beneath::hand},
                                         Row{"mmap", Beneath::kernel}, Row{"mmap", Beneath::hand},
                                         Row{"io_uring", Beneath::kernel}));

}  // namespace
}  // namespace penstock::test
