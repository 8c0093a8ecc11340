// F46: runs that can't have the threads or the memory they want end soon, and rightly or with one
// error that names the limit. PENSTOCK_LIMITS=all tries every place, otherwise some.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>

#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/limits/limited.h"
#include "tests/support/figure.h"
#include "tests/support/places.h"

namespace penstock::test {
namespace {

bool all_places() {
  const char* wanted = std::getenv("PENSTOCK_LIMITS");
  return wanted != nullptr && std::string_view(wanted) == "all";
}

/// What a user does, and how its result is told.
struct Work {
  std::string name;
  std::vector<std::string> arguments;
  std::function<std::string(const Ended&)> digest;
};

class Limits : public testing::Test {
 protected:
  Limits() {
    const auto make = [&](std::vector<std::string> arguments) {
      const Ended made = run_limited(folder_, std::move(arguments), [] {});
      EXPECT_EQ(made.code, 0) << made.err;
    };
    make({"synth", folder_ / "images", "--images", "48", "--size", "64x80"});
    make({"synth", folder_ / "digits", "--format", "idx", "--images", "64", "--size", "28x28"});
    // Few threads for reading, or most of a sweep would be of those that are only tried.
    const std::string readers = all_places() ? "64" : "2";
    work_.push_back({"profile",
                     {"profile",
                      "--images",
                      folder_ / "images",
                      "--shuffle",
                      "--seed",
                      "1",
                      "--random-resized-crop",
                      "48",
                      "--batch",
                      "8",
                      "--epochs",
                      "2",
                      "--threads",
                      "3",
                      "--io-threads",
                      readers,
                      "--digest",
                      "--quiet",
                      "--json",
                      "-"},
                     json_field("digest")});
    work_.push_back({"train",
                     {"train", "--model", "lenet", "--data",
                      folder_ / "digits/images-idx3-ubyte" + std::string(",") +
                          (folder_ / "digits/labels-idx1-ubyte"),
                      "--device", "host:0,host:1", "--batch", "16", "--seed", "5",
                      "--deterministic", "--quiet", "--json", "-"},
                     json_field("variables_digest")});
    const std::string packed = folder_ / "packed.pnr";
    work_.push_back({"pack",
                     {"pack", "--images", folder_ / "images", "--jpeg", "coefficients", "--out",
                      packed, "--quiet"},
                     [packed](const Ended&) {
                       const std::string bytes = read_file(packed);
                       ::unlink(packed.c_str());
                       return bytes.empty() ? "" : std::to_string(std::hash<std::string>()(bytes));
                     }});
    for (const Work& work : work_) {
      const Ended clean = run_limited(folder_, work.arguments, [] {});
      EXPECT_EQ(clean.code, 0) << work.name << ": " << clean.err;
      digests_[work.name] = work.digest(clean);
      EXPECT_FALSE(digests_[work.name].empty()) << work.name;
    }
  }

  static std::function<std::string(const Ended&)> json_field(const std::string& name) {
    return [name](const Ended& ended) {
      return nlohmann::json::parse(ended.out).at(name).get<std::string>();
    };
  }

  /// Judges one run under a limit, and counts it.
  void judge(const Work& work, const Ended& ended, const std::string& where) {
    ++runs_;
    const std::string what = work.name + ", " + where;
    EXPECT_FALSE(ended.hung) << what << ": hangs; " << ended.err;
    // What glibc can't remember when a thread first uses a variable of its own, it aborts for.
    if (ended.err.find("failed to register TLS destructor") != std::string::npos) {
      std::printf("%s: glibc aborts: failed to register TLS destructor\n", what.c_str());
      ++aborts_;
      return;
    }
    EXPECT_LT(ended.code, 128) << what << ": a signal; " << ended.err;
    if (ended.hung || ended.code >= 128) return;
    if (ended.code == 0) {
      EXPECT_EQ(work.digest(ended), digests_[work.name]) << what;
      ++right_;
      return;
    }
    const std::vector<std::string> errors = errors_in(ended.err);
    EXPECT_EQ(errors.size(), 1U) << what << ": " << ended.err;
    const bool named = ended.err.find("RLIMIT_") != std::string::npos;
    EXPECT_TRUE(named) << what << ", exit code " << ended.code << ": " << ended.err;
    ++named_;
  }

  std::string counts() const {
    return std::to_string(runs_) + " runs: " + std::to_string(right_) + " right, " +
           std::to_string(named_) + " ended with one error that names the limit, " +
           std::to_string(aborts_) + " aborted in glibc";
  }

  TempFolder folder_;
  std::vector<Work> work_;
  std::map<std::string, std::string> digests_;
  int runs_ = 0;
  int right_ = 0;
  int named_ = 0;
  int aborts_ = 0;  // inside of the C library
};

TEST_F(Limits, FailedThreadStart) {
  const std::string preload = "LD_PRELOAD=" + test::built("liblimits_few_threads.so");
  for (const Work& work : work_) {
    const std::string calls = folder_ / "calls";
    static_cast<void>(
        run_limited(folder_, work.arguments, [] {}, {preload, "PENSTOCK_CALLS=" + calls}));
    const int most = std::stoi(read_file(calls)) + 1;
    EXPECT_GT(most, 2) << work.name << ": the library was not preloaded";
    for (int k = 1; k <= most; k += 1) {
      const std::string from = "PENSTOCK_FAIL_FROM=" + std::to_string(k);
      const std::string to = "PENSTOCK_FAIL_TO=" + std::to_string(k);
      const std::string place = "call " + std::to_string(k);
      judge(work, run_limited(folder_, work.arguments, [] {}, {preload, from}), "from " + place);
      judge(work, run_limited(folder_, work.arguments, [] {}, {preload, from, to}),
            "only at " + place);
    }
  }
  EXPECT_GT(right_, 0);
  EXPECT_GT(named_, 0);
  figure("F46", "pthread_create fails from a call on, or at one: %s", counts().c_str());
}

rlim_t least_that(rlim_t fails, rlim_t suffices, rlim_t step,
                  const std::function<bool(rlim_t)>& is_enough) {
  while (suffices - fails > step) {
    const rlim_t middle = fails + (suffices - fails) / 2;
    (is_enough(middle) ? suffices : fails) = middle;
  }
  return suffices;
}

TEST_F(Limits, LittleAddressSpace) {
  constexpr rlim_t kMiB = 1U << 20;
  const auto under = [&](const std::vector<std::string>& arguments, rlim_t bytes) {
    return run_limited(folder_, arguments, [bytes] {
      const rlimit limit{bytes, bytes};
      ::setrlimit(RLIMIT_AS, &limit);
    });
  };
  const rlim_t starts = least_that(kMiB, 1024 * kMiB, kMiB / 4, [&](rlim_t bytes) {
    return under({"--version"}, bytes).code == 0;
  });
  const int steps = all_places() ? 64 : 12;
  for (const Work& work : work_) {
    const rlim_t suffices = least_that(starts, 16384 * kMiB, 2 * kMiB, [&](rlim_t bytes) {
      return under(work.arguments, bytes).code == 0;
    });
    for (int i = 0; i <= steps; ++i) {
      const rlim_t bytes =
          starts + (suffices - starts) * static_cast<rlim_t>(i) / static_cast<rlim_t>(steps);
      judge(work, under(work.arguments, bytes), std::to_string(bytes / 1024) + " KiB");
    }
  }
  EXPECT_GT(named_, 0);
  figure("F46", "RLIMIT_AS from what starts to what suffices: %s", counts().c_str());
}

/// A user that has no other process.
constexpr uid_t kNobodyElse = 61234;

void become_limited(rlim_t processes) {
  const rlimit limit{processes, processes};
  if (::setrlimit(RLIMIT_NPROC, &limit) != 0 || ::setgid(kNobodyElse) != 0 ||
      ::setuid(kNobodyElse) != 0)
    ::_exit(125);
}

/// True if a process of that user really can't start a second thread.
bool limit_bites() {
  const pid_t child = ::fork();
  if (child == 0) {
    become_limited(1);
    pthread_t thread{};
    ::_exit(::pthread_create(
        &thread, nullptr, [](void*) -> void* { return nullptr; }, nullptr));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == EAGAIN;
}

TEST_F(Limits, FewProcesses) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become a user with no other process";
  if (!limit_bites()) GTEST_SKIP() << "RLIMIT_NPROC does not bind here";
  ::chmod(folder_.path().c_str(), 0777);
  const std::string program =
      folder_ / "penstock";  // the build's may lie where it can't be reached
  std::filesystem::copy_file(program_path(), program);
  const Ended starts = run_limited(
      folder_, {"--version"}, [] { become_limited(1000); }, {}, program);
  if (starts.code != 0) GTEST_SKIP() << "another user can't run the program: " << starts.err;
  for (const Work& work : work_) {
    for (rlim_t most = 1; most <= (all_places() ? 90U : 16U); ++most) {
      judge(work,
            run_limited(
                folder_, work.arguments, [most] { become_limited(most); }, {}, program),
            "RLIMIT_NPROC " + std::to_string(most));
    }
  }
  EXPECT_GT(right_, 0);
  EXPECT_GT(named_, 0);
  figure("F46", "RLIMIT_NPROC from 1 on: %s", counts().c_str());
}

}  // namespace
}  // namespace penstock::test
