#include "pipeline/io/pread.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <penstock/rng.h>

#include "pipeline/core/waits.h"
#include "tests/support/figure.h"
#include "tests/support/files.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;

/// pread(2) as bad as it may be: any count from 1 upward, EINTR and EAGAIN in between.
PreadFn shredded(std::uint64_t seed) {
  auto calls = std::make_shared<std::uint64_t>(0);
  return [=](int fd, void* out, std::size_t size, std::int64_t at) -> std::int64_t {
    Rng rng(seed, (*calls)++, 0);
    if (rng.coin(0.2)) {
      errno = rng.coin(0.98) ? EINTR : EAGAIN;
      return -1;
    }
    return ::pread(fd, out, rng.coin(0.2) ? size : 1 + rng.below(size), at);
  };
}

TEST(Pread, ShortReadsAndInterruptions) {
  const test::TempFolder folder;
  const std::string contents = test::noise(5000);
  const std::string path = folder.write("f", contents);
  for (std::uint64_t seed = 0; seed < 10'000; ++seed) {
    PreadFileSystem files(shredded(seed));
    ASSERT_EQ(test::as_text(files.open(path)->read_all(5000)), contents) << seed;
  }
  test::figure("F2", "10000 files read by random short reads, EINTR and EAGAIN: all equal");
}

TEST(Pread, OneByteAtATime) {
  const test::TempFolder folder;
  const std::string contents = test::noise(300);
  PreadFileSystem files([](int fd, void* out, std::size_t, std::int64_t at) {
    return static_cast<std::int64_t>(::pread(fd, out, 1, at));
  });
  EXPECT_EQ(test::as_text(files.open(folder.write("f", contents))->read_all(300)), contents);
}

// A wait beside reads that the page cache answered is for memory or a lock. Small reads do not ask
// the page cache, so a wait beside them counts.
TEST(Pread, KnowsWhatThePageCacheAnswered) {
  const test::TempFolder folder;
  PreadFileSystem files;
  const std::shared_ptr<File> file = files.open(folder.write("f", test::noise(30'000)));
  const auto sleep = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  const WaitWatch idle;
  EXPECT_FALSE(idle.waited());
  sleep();
  EXPECT_TRUE(idle.waited());
  const FileReads before = file_reads();
  const WaitWatch small;
  std::array<std::byte, 100> some{};
  file->read_exactly(0, some);
  sleep();
  EXPECT_EQ(file_reads().cached + file_reads().others, before.cached + before.others);
  EXPECT_TRUE(small.waited());
  const WaitWatch reading;
  static_cast<void>(file->read_all(30'000));
  sleep();
  if (file_reads().cached == before.cached)
    GTEST_SKIP() << "the temporary folder's file system does not tell (RWF_NOWAIT)";
  EXPECT_EQ(file_reads().others, before.others);
  EXPECT_FALSE(reading.waited());
}

TEST(Pread, Eio) {
  const test::TempFolder folder;
  const std::string path = folder.write("f", test::noise(300));
  PreadFileSystem files([](int fd, void* out, std::size_t size, std::int64_t at) -> std::int64_t {
    if (at < 200) return ::pread(fd, out, std::min<std::size_t>(size, 100), at);
    errno = EIO;
    return -1;
  });
  try {
    files.open(path)->read_all(300);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unavailable);
    EXPECT_EQ(error.where().shard, path);
    EXPECT_EQ(error.where().offset, 200);
    EXPECT_THAT(error.what(), HasSubstr("Input/output error"));
  }
}

TEST(Pread, ShrunkFile) {
  const test::TempFolder folder;
  const std::string path = folder.write("f", test::noise(300));
  const auto file = default_file_system()->open(path);
  ASSERT_EQ(::truncate(path.c_str(), 120), 0);
  try {
    file->read_all(300);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::changed);
    EXPECT_THAT(error.what(), HasSubstr("ends at byte 120"));
  }
}

TEST(Pread, EternalEagain) {
  const test::TempFolder folder;
  PreadFileSystem files([](int, void*, std::size_t, std::int64_t) -> std::int64_t {
    errno = EAGAIN;
    return -1;
  });
  const auto file = files.open(folder.write("f", "abc"));
  EXPECT_THROW(file->read_all(3), Error);
}

TEST(Pread, OutOfDescriptors) {
  EXPECT_EQ(error_from_errno(EMFILE, "open", "x").code(), ErrorCode::resource_exhausted);
  EXPECT_EQ(error_from_errno(ENFILE, "open", "x").code(), ErrorCode::resource_exhausted);
  EXPECT_EQ(error_from_errno(EACCES, "open", "x").code(), ErrorCode::unavailable);
  EXPECT_EQ(error_from_errno(ENOENT, "open", "x").code(), ErrorCode::not_found);
}

}  // namespace
}  // namespace penstock
