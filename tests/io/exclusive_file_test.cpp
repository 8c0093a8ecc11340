// Files with one writer: there in full or not at all, and no lock outlives its holder.
#include "pipeline/io/exclusive_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace penstock {
namespace {

using test::as_bytes;
using test::expect_error;
using test::read_file;
using test::TempFolder;

std::size_t files_in(const std::string& folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

TEST(ExclusiveFile, IsThereOnceItIsCommitted) {
  const TempFolder folder;
  for (const std::size_t size : {0U, 1U, 1000U, 300'000U, 2'000'000U}) {
    const std::string contents = test::noise(size);
    {
      ExclusiveFile file(folder / "a");
      for (std::size_t at = 0; at < size; at += 100'000) {
        file.append(as_bytes(std::string_view(contents).substr(at, 100'000)));
      }
      EXPECT_EQ(file.size(), size);
      file.commit();
    }
    EXPECT_EQ(read_file(folder / "a"), contents);
    EXPECT_EQ(files_in(folder.path()), 1U);
  }
}

TEST(ExclusiveFile, LeavesNothingWithoutACommit) {
  const TempFolder folder;
  folder.write("a", "old");
  {
    ExclusiveFile file(folder / "a");
    file.append(as_bytes("new"));
  }
  EXPECT_EQ(read_file(folder / "a"), "old");
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(ExclusiveFile, CanGoOnWhereAWriterStopped) {
  const TempFolder folder;
  const std::string contents = test::noise(700'000);
  {
    ExclusiveFile file(folder / "a", true);
    std::byte none{};
    EXPECT_EQ(file.read(0, {&none, 1}), 0U);
    file.append(as_bytes(contents));
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
  EXPECT_GE(std::filesystem::file_size(folder / "a.partial"), 512U << 10);
  {
    ExclusiveFile file(folder / "a", true);
    std::vector<std::byte> found(300'000);
    EXPECT_EQ(file.read(100, found), found.size());
    EXPECT_EQ(test::as_text(found), contents.substr(100, found.size()));
    EXPECT_EQ(file.read(1 << 20, found), 0U);
    file.keep(200'000);
    EXPECT_EQ(file.size(), 200'000U);
    file.append(as_bytes(std::string_view(contents).substr(200'000)));
    file.commit();
  }
  EXPECT_EQ(read_file(folder / "a"), contents);
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(ExclusiveFile, HasOneWriter) {
  const TempFolder folder;
  auto first = std::make_unique<ExclusiveFile>(folder / "a");
  expect_error(ErrorCode::unavailable,
               "process " + std::to_string(::getpid()) + " is writing the file",
               [&] { ExclusiveFile(folder / "a"); });
  first->append(as_bytes("first"));
  first->commit();
  ExclusiveFile second(folder / "a");
  first.reset();
  expect_error(ErrorCode::unavailable, "", [&] { ExclusiveFile(folder / "a"); });
  second.append(as_bytes("second"));
  EXPECT_EQ(read_file(folder / "a"), "first");
  second.commit();
  EXPECT_EQ(read_file(folder / "a"), "second");
}

TEST(ExclusiveFile, KilledWriter) {
  const TempFolder folder;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ExclusiveFile file(folder / "a");
    file.append(as_bytes(test::noise(1'000'000)));
    (void)!::write(ready[1], "x", 1);
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  expect_error(ErrorCode::unavailable, "", [&] { ExclusiveFile(folder / "a"); });
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(std::filesystem::exists(folder / "a.partial"));
  ExclusiveFile file(folder / "a");
  file.append(as_bytes("short"));
  file.commit();
  EXPECT_EQ(read_file(folder / "a"), "short");
  EXPECT_EQ(files_in(folder.path()), 1U);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(ExclusiveFile, NamesTheFolderThatIsMissing) {
  const TempFolder folder;
  expect_error(ErrorCode::not_found, "none", [&] { ExclusiveFile(folder / "none/a"); });
}

TEST(ExclusiveFile, ReplacesNoFolderAndNoLink) {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "a");
  expect_error(ErrorCode::not_found, "Is a directory", [&] { ExclusiveFile file(folder / "a"); });
  EXPECT_EQ(files_in(folder.path()), 1u);
  std::filesystem::create_symlink("target", folder / "link");
  ExclusiveFile file(folder / "link");
  file.append(as_bytes("contents"));
  file.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "target"), "contents");
}

}  // namespace
}  // namespace penstock
