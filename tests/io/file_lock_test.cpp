// One process at a time has a file, and the others are told which.
#include "pipeline/io/file_lock.h"

#include <chrono>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/strangers.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace {

using test::expect_error;
using test::read_file;
using test::TempFolder;

std::string named(pid_t process) {
  return "process " + std::to_string(process) + " has locked the file";
}

TEST(FileLock, HasOneHolder) {
  const TempFolder folder;
  auto first = std::make_unique<FileLock>(folder / "a");
  expect_error(ErrorCode::unavailable, named(::getpid()), [&] { FileLock(folder / "a"); });
  expect_error(ErrorCode::unavailable, folder / "a",
               [&] { FileLock(folder / "a", std::chrono::milliseconds(20)); });
  const FileLock other(folder / "b");
  first.reset();
  EXPECT_TRUE(std::filesystem::exists(folder / "a.lock"));
  const FileLock second(folder / "a");
}

TEST(FileLock, EndsWithItsProcessAndNamesTheOneThatHasIt) {
  const test::TimeLimit limit(100);
  const TempFolder folder;
  for (int round = 0; round < 5; ++round) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const FileLock lock(folder / "a");
      (void)!::write(ready[1], "x", 1);
      for (;;) ::pause();
    }
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    expect_error(ErrorCode::unavailable, named(child), [&] { FileLock(folder / "a"); });
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    const FileLock lock(folder / "a");
    ::close(ready[0]);
    ::close(ready[1]);
  }
}

TEST(FileLock, WaitsForItsHolderToEnd) {
  const test::TimeLimit limit(100);
  const TempFolder folder;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const FileLock lock(folder / "a");
    ::usleep(200'000);
    ::_exit(0);
  }
  while (!std::filesystem::exists(folder / "a.lock")) ::usleep(1000);
  const FileLock lock(folder / "a", std::chrono::seconds(20));
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST(FileLock, OtherFilesAtItsName) {
  const test::TimeLimit limit(100);
  for (const test::Stranger& stranger : test::strangers()) {
    const TempFolder folder;
    const std::string victim = folder.write("victim", "precious");
    stranger.put(folder / "a.lock", victim);
    const std::optional<Error> error = test::thrown_by([&] { FileLock(folder / "a"); });
    if (stranger.name != "hard link") {
      ASSERT_TRUE(error) << stranger.name;
      EXPECT_EQ(error->where().shard, folder / "a.lock") << stranger.name;
    }
    EXPECT_EQ(read_file(victim), "precious") << stranger.name;
    EXPECT_TRUE(stranger.stands(folder / "a.lock", victim)) << stranger.name;
  }
}

}  // namespace
}  // namespace penstock
