#include "pipeline/io/uring.h"

#include <cerrno>
#include <cstddef>
#include <thread>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <penstock/rng.h>

#include "tests/support/figure.h"
#include "tests/support/files.h"
#include "tests/support/log_capture.h"

namespace penstock {
namespace {

/// Runs `check` in a child of its own, whose limits and filters end with it. True if it returned
/// true.
template <typename F>
bool in_child(F check) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(check() ? 0 : 1);
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Makes `call` fail with `error` from now on, as a container's profile does.
bool forbid(unsigned call, unsigned error) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error & SECCOMP_RET_DATA)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{std::size(code), code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

class UringTest : public ::testing::Test {
 protected:
  void SetUp() override {
    files_ = make_uring_file_system();
    if (files_ == nullptr) GTEST_SKIP() << "no io_uring on this machine";
  }
  void drop_from_cache(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY);
    ::fdatasync(fd);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
  }
  /// Reads `path` in groups of random spans and compares each with `contents` at `base`.
  void check_random_groups(const std::string& path, std::uint64_t base, const std::string& contents,
                           std::uint64_t seed) {
    const auto file = files_->open(path);
    for (std::uint64_t round = 0; round < 5; ++round) {
      drop_from_cache(path);
      Rng rng(seed, round, 0);
      std::vector<std::string> out;
      std::vector<std::uint64_t> at;
      for (int i = 0; i < 100; ++i) {
        at.push_back(rng.below(contents.size()));
        const std::size_t most = rng.coin(0.3) ? 2'500'000 : 5000;
        out.emplace_back(rng.below(std::min<std::uint64_t>(most, contents.size() - at.back()) + 1),
                         '?');
      }
      std::vector<ReadRequest> group;
      for (std::size_t i = 0; i < out.size(); ++i)
        group.push_back(
            {base + at[i], out[i].size(), reinterpret_cast<std::byte*>(out[i].data()), {}});
      file->read(group);
      for (std::size_t i = 0; i < out.size(); ++i) {
        ASSERT_TRUE(group[i].status.ok()) << group[i].status.error().what();
        ASSERT_TRUE(contents.compare(at[i], out[i].size(), out[i]) == 0) << i;
      }
    }
  }

  const std::string contents_ = test::noise(8 << 20);
  FileSystemPtr files_;
};

TEST_F(UringTest, ColdGroups) {
  const test::TempFolder folder;
  const std::string path = folder.write("f", contents_);
  check_random_groups(path, 0, contents_, 1);
}

TEST_F(UringTest, ColdGroupsFromManyThreads) {
  const test::TempFolder folder;
  const std::string path = folder.write("f", contents_);
  std::vector<std::jthread> threads;
  for (std::uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] { check_random_groups(path, 0, contents_, 10 + t); });
}

TEST_F(UringTest, ReadsPastTheCacheOnceFilesExceedMemory) {
  const test::TempFolder folder;
  const std::string path = folder.write("f", contents_);
  // A file with a hole larger than any memory, so that the next is read directly.
  const std::string hole = folder.write("hole", "");
  if (::truncate(hole.c_str(), 1LL << 42) != 0) GTEST_SKIP() << "no sparse files here";
  files_->open(hole);
  check_random_groups(path, 0, contents_, 2);
  const std::string tail = folder.write("tail", std::string(1001, 'h') + contents_);
  check_random_groups(tail, 1001, contents_, 3);
}

TEST_F(UringTest, WithoutMoreRings) {
  const test::TempFolder folder;
  const std::string path = folder.write("f", contents_);
  EXPECT_TRUE(in_child([&] {
    const auto files = make_uring_file_system();
    const auto file = files->open(path);
    if (!forbid(__NR_io_uring_setup, EMFILE)) return false;  // one ring is there already
    std::vector<std::jthread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 20; ++i) {
          drop_from_cache(path);
          wrong += test::as_text(file->read_all(8 << 20)) != contents_;
        }
      });
    }
    threads.clear();
    return wrong == 0;
  }));
}

TEST(UringRefused, FallsBackToPreadAndSaysSoOnce) {
  for (const unsigned error : {EPERM, ENOSYS}) {
    EXPECT_TRUE(in_child([&] {
      test::LogCapture log;
      if (!forbid(__NR_io_uring_setup, error)) return false;
      const bool falls_back = make_file_system("io_uring")->name() == "pread" &&
                              make_file_system("io_uring")->name() == "pread";
      return falls_back && log.count("io_uring") == 1;
    })) << error;
  }
  test::figure("F43", "io_uring refused with EPERM and ENOSYS: pread takes over, said once");
}

}  // namespace
}  // namespace penstock
