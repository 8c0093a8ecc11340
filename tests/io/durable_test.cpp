#include "pipeline/io/durable.h"

#include <cerrno>
#include <csignal>

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace penstock {
namespace {

std::vector<std::string> names_in(const test::TempFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    names.push_back(entry.path().filename());
  return names;
}

void save(const std::string& path, const std::string& text, WriteFault fault = {}) {
  DurableFile file(path, std::move(fault));
  file.append(test::as_bytes(text));
  file.commit();
}

TEST(Durable, ReplacesTheFile) {
  const test::TempFolder folder;
  save(folder / "state", "old");
  save(folder / "state", test::noise(3'000'000));
  EXPECT_EQ(test::read_file(folder / "state"), test::noise(3'000'000));
  EXPECT_EQ(names_in(folder).size(), 1u);
}

TEST(Durable, WithoutCommit) {
  const test::TempFolder folder;
  save(folder / "state", "old");
  { DurableFile(folder / "state").append(test::as_bytes("new")); }
  EXPECT_EQ(test::read_file(folder / "state"), "old");
  EXPECT_EQ(names_in(folder).size(), 1u);
}

TEST(Durable, FailureAtEveryStep) {
  const test::TempFolder folder;
  int n = 1;
  for (;; ++n) {
    save(folder / "state", "old");
    int step = 0;
    bool failed = false;
    try {
      save(folder / "state", "new!", [&](const char*) { return ++step == n ? EIO : 0; });
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unavailable);
      EXPECT_EQ(error.where().shard, folder / "state");
      failed = true;
    }
    const std::string text = test::read_file(folder / "state");
    const bool renamed = n >= 5;  // create, write, sync, rename, sync folder
    EXPECT_EQ(text, renamed ? "new!" : "old") << n;
    EXPECT_EQ(names_in(folder).size(), 1u) << n;
    if (!failed) break;
  }
  EXPECT_EQ(n, 6);
}

TEST(Durable, FullDisk) {
  const test::TempFolder folder;
  save(folder / "state", "old");
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1000, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  ErrorCode code = ErrorCode::internal;
  try {
    save(folder / "state", test::noise(2000));
  } catch (const Error& error) {
    code = error.code();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(code, ErrorCode::resource_exhausted);
  EXPECT_EQ(test::read_file(folder / "state"), "old");
  EXPECT_EQ(names_in(folder).size(), 1u);
}

TEST(Durable, KeepsTheModeOfWhatItReplaces) {
  const test::TempFolder folder;
  const mode_t mask = ::umask(027);
  save(folder / "new", "new");
  EXPECT_EQ(std::filesystem::status(folder / "new").permissions(),
            static_cast<std::filesystem::perms>(0640));
  for (const mode_t mode : {0600U, 0644U, 0664U, 0777U}) {
    folder.write("old", "old");
    ASSERT_EQ(::chmod((folder / "old").c_str(), mode), 0);
    save(folder / "old", "new");
    EXPECT_EQ(std::filesystem::status(folder / "old").permissions(),
              static_cast<std::filesystem::perms>(mode));
  }
  ::umask(mask);
}

TEST(Durable, MissingFolder) {
  const test::TempFolder folder;
  try {
    DurableFile file(folder / "no/state");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
  }
}

TEST(Durable, IrregularFiles) {
  const test::TempFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("pipe", folder / "to pipe");
  std::filesystem::create_directory(folder / "folder");
  for (const char* name : {"pipe", "to pipe"})
    test::expect_error(ErrorCode::unavailable, "can't write: not a regular file",
                       [&] { save(folder / name, "new"); });
  test::expect_error(ErrorCode::not_found, "can't write: Is a directory",
                     [&] { save(folder / "folder", "new"); });
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "pipe"));
  EXPECT_EQ(names_in(folder).size(), 3u);
}

TEST(Durable, SymbolicLink) {
  const test::TempFolder folder;
  std::filesystem::create_directory(folder / "other");
  std::filesystem::create_symlink("other/state", folder / "relative");
  std::filesystem::create_symlink(folder / "relative", folder / "absolute");
  for (const std::string text : {"made", "replaced"}) {  // the link leads nowhere at first
    save(folder / "absolute", text);
    EXPECT_EQ(test::read_file(folder / "other/state"), text);
  }
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "relative"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "absolute"));
  std::filesystem::create_symlink("circle", folder / "circle");
  test::expect_error(ErrorCode::not_found, "circle", [&] { save(folder / "circle", "x"); });
}

}  // namespace
}  // namespace penstock
