// F9: few file descriptors, few threads, no locked memory. Each run has a process of its own.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <thread>

#include <dlfcn.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <penstock/sources.h>

#include "tests/support/figure.h"
#include "tests/support/files.h"
#include "tests/support/log_capture.h"
#include "tests/support/records.h"
#include "tests/support/sanitizer.h"

namespace {

std::atomic<int> threads_left{1 << 30};

struct Start {
  void* (*run)(void*);
  void* argument;
};

void* run_counted(void* start) {
  const Start copy = *static_cast<Start*>(start);
  delete static_cast<Start*>(start);
  void* result = copy.run(copy.argument);
  ++threads_left;
  return result;
}

}  // namespace

// As where RLIMIT_NPROC or a container's pids.max is reached.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*run)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  if (threads_left.fetch_sub(1) <= 0) {
    ++threads_left;
    return EAGAIN;
  }
  return create(thread, attributes, run_counted, new Start{run, argument});
}

namespace penstock {
namespace limits_test {

/// What a run under a limit came to.
enum Verdict : int { kRight = 0, kNamed = 10, kWrong = 11, kUnwarned = 12 };

/// Runs `check` in a child of its own and returns its exit code, or 128 and a signal.
template <typename F>
int in_child(F check) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(100);  // a hang is a failure
    ::_exit(check());
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

constexpr int kShards = 40;
constexpr int kEach = 5;

class Limits : public testing::Test {
 protected:
  Limits() {
    for (int shard = 0; shard < kShards; ++shard) {
      std::vector<std::string> records;
      for (int i = 0; i < kEach; ++i) records.push_back(std::to_string(shard * kEach + i));
      folder_.write("part-" + std::to_string(100 + shard), test::tfrecords_of(records));
    }
  }

  int verdict() const {
    test::LogCapture log;
    try {
      TFRecordOptions options{};
      options.index_folder = "-";
      Iterator iterator =
          tfrecord({folder_ / "part-*"}, options).shuffle().batch(8).iterate({.threads = 2});
      std::int64_t sum = 0;
      for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
        if (next.is_error()) return next.error().cause().empty() ? kWrong : kNamed;
        for (std::int64_t i = 0; i < next->valid_rows; ++i) {
          sum += std::stoi(std::string((*next)["record"].bytes_at(i)));
        }
      }
      constexpr int kCount = kShards * kEach;
      if (sum != kCount * (kCount - 1) / 2) return kWrong;
      return log.count("RLIMIT_NOFILE") <= 1 ? kRight : kUnwarned;
    } catch (const std::exception& error) {
      return error.what()[0] == '\0' ? kWrong : kNamed;
    }
  }

  test::TempFolder folder_;
};

TEST_F(Limits, FewFileDescriptors) {
  if (test::kAddressSanitizer) GTEST_SKIP() << "UndefinedBehaviorSanitizer wants some itself";
  int least = 0;
  for (int most = 64; most >= 3; --most) {
    const int verdict = in_child([&] {
      const rlimit limit{static_cast<rlim_t>(most), 1024};
      ::setrlimit(RLIMIT_NOFILE, &limit);
      return this->verdict();
    });
    if (verdict == kRight) least = most;
    EXPECT_TRUE(verdict == kRight || (verdict == kNamed && most < 16)) << most << ": " << verdict;
  }
  EXPECT_LE(least, 16);
  test::figure("F9",
               "file descriptors: %d shards are read with RLIMIT_NOFILE down to %d, below it "
               "an error says why",
               kShards, least);
}

TEST_F(Limits, FewThreads) {
  int least = -1;
  for (int most = 12; most >= 0; --most) {
    const int verdict = in_child([&] {
      threads_left = most;
      return this->verdict();
    });
    if (verdict == kRight) least = most;
    EXPECT_TRUE(verdict == kRight || verdict == kNamed) << most << ": " << verdict;
  }
  EXPECT_GE(least, 0);
  test::figure("F9", "threads: works with %d, with fewer an error says so", least);
}

/// That so many can be started was found out before others took them.
TEST_F(Limits, FewerThreadsThanAMomentAgo) {
  constexpr std::int64_t kCount = 10;
  const auto run = [] {
    Iterator iterator = range(kCount).iterate({.threads = 1, .io_threads = 8});
    std::int64_t count = 0;
    for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
      if (next.is_error()) return next.error().cause().empty() ? kWrong : kNamed;
      ++count;
    }
    return count == kCount ? kRight : kWrong;
  };
  int least = -1;
  for (int most = 12; most >= 0; --most) {
    const int verdict = in_child([&]() -> int {
      if (run() != kRight) return kWrong;
      threads_left = most;
      try {
        return run();
      } catch (const Error& error) {
        return error.code() == ErrorCode::resource_exhausted ? kNamed : kWrong;
      }
    });
    if (verdict == kRight) least = most;
    EXPECT_TRUE(verdict == kRight || verdict == kNamed) << most << ": " << verdict;
  }
  EXPECT_GE(least, 0);
}

/// Where the next epoch can't be begun ahead of time, this one continues, and that begins later.
TEST_F(Limits, NoThreadForTheNextEpoch) {
  EXPECT_EQ(in_child([] {
              constexpr std::int64_t kCount = 300;
              std::atomic<int> delivered{0};
              const Dataset dataset = generate(
                  [&] {
                    return [&, x = std::int64_t{0}](Element& out) mutable {
                      for (int i = 0; x == kCount && delivered < 10 && i < 500; ++i)
                        std::this_thread::sleep_for(std::chrono::milliseconds(10));
                      if (x == kCount) threads_left = 0;
                      out.set("x", Tensor::scalar(x));
                      return x++ < kCount;
                    };
                  },
                  Spec({{"x", DType::i64, {}}}), "last_thread");
              Iterator iterator = dataset.iterate({.epochs = 3, .threads = 1});
              std::int64_t sum = 0;
              do {
                for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
                  if (next.is_error()) return kNamed;
                  sum += (*next)["x"].item<std::int64_t>();
                  ++delivered;
                }
                threads_left = 1 << 30;
              } while (iterator.next_epoch());
              return sum == 3 * kCount * (kCount - 1) / 2 ? kRight : kWrong;
            }),
            kRight);
}

TEST_F(Limits, NoLockedMemory) {
  EXPECT_EQ(in_child([&] {
              const rlimit none{0, 0};
              ::setrlimit(RLIMIT_MEMLOCK, &none);
              return this->verdict();
            }),
            kRight);
  test::figure("F9", "locked memory: none is needed");
}

}  // namespace limits_test
}  // namespace penstock
