// What becomes of the program where the system has limits on files, or takes them away.
#include <chrono>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>

#include <sys/resource.h>

#include "tests/support/digits.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/support/program.h"
#include "tests/support/records.h"
#include "tests/support/sanitizer.h"
#include "tests/support/wait_until.h"

namespace penstock::test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using Flags = std::vector<std::string>;

/// A soft limit of this process, and so of the programs that it starts.
class SoftLimit {
 public:
  SoftLimit(__rlimit_resource resource, rlim_t limit) : resource_(resource) {
    getrlimit(resource_, &before_);
    const rlimit soft{limit, before_.rlim_max};
    setrlimit(resource_, &soft);
  }
  SoftLimit(const SoftLimit&) = delete;
  SoftLimit& operator=(const SoftLimit&) = delete;
  ~SoftLimit() { setrlimit(resource_, &before_); }

 private:
  const __rlimit_resource resource_;
  rlimit before_{};
};

TEST(FileLimits, FileSizeLimit) {
  const TempFolder folder;
  for (const Flags& flags :
       {Flags{"synth", folder / "made", "--images", "40", "--format", "tfrecord"},
        Flags{"profile", "--range", "100000", "--batch", "2", "--quiet", "--digests",
              folder / "digests"}}) {
    const Outcome outcome = [&] {
      const SoftLimit small(RLIMIT_FSIZE, 16 << 10);
      return run_program(flags);
    }();
    EXPECT_EQ(outcome.code, 1) << flags[0] << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("File too large")) << flags[0];
  }
}

/// Shards of records of 1,000 bytes.
std::string tfrecords(const TempFolder& folder, int shards, int records) {
  for (int shard = 0; shard < shards; ++shard) {
    folder.write("part-" + std::to_string(100 + shard),
                 tfrecords_of(std::vector<std::string>(records, noise(1000))));
  }
  return folder / "part-*";
}

TEST(FileLimits, FewDescriptors) {
  if (kAddressSanitizer) GTEST_SKIP() << "UndefinedBehaviorSanitizer wants some itself";
  const TempFolder folder;
  const std::string shards = tfrecords(folder, 40, 5);
  const SoftLimit few(RLIMIT_NOFILE, 8);
  for (const char* io : {"pread", "mmap"}) {
    const Outcome outcome =
        run_program({"profile", "--tfrecord", shards, "--shuffle", "--batch", "8", "--io", io,
                     "--threads", "2", "--quiet", "--json", "-"});
    ASSERT_EQ(outcome.code, 0) << io << ": " << outcome.err;
    EXPECT_EQ(outcome.json()["elements"], 200) << io;
  }
}

TEST(FileLimits, ASmallStack) {
  if (kAddressSanitizer || kThreadSanitizer) GTEST_SKIP() << "sanitizers need more";
  const TempFolder folder;
  const std::string shards = tfrecords(folder, 2, 50);
  std::string graph = "[source]\nkind = \"range\"\nstop = 100\n";
  for (int i = 0; i < 990; ++i) graph += "[[stages]]\nkind = \"take\"\ncount = 50\n";
  const std::string pipeline = folder.write("long.toml", graph);
  const Digits digits(40);
  const SoftLimit small(RLIMIT_STACK, 64 << 10);
  const Outcome read = run_program(
      {"profile", "--tfrecord", shards, "--shuffle", "--batch", "8", "--quiet", "--json", "-"});
  ASSERT_EQ(read.code, 0) << read.err;
  EXPECT_EQ(read.json()["elements"], 100);
  const Outcome run = run_program({"profile", "--pipeline", pipeline, "--quiet", "--json", "-"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["elements"], 50);
  const Outcome trained =
      run_program({"train", "--model", "lenet", "--data", digits.path(), "--batch", "8",
                   "--max-steps", "2", "--quiet", "--json", "-"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(trained.json()["steps"], 2);
}

/// Whether the file is seen to be shorter before its pages are used or not is up to chance.
TEST(FileLimits, TruncatedMappedFile) {
  for (int round = 0; round < 5; ++round) {
    const TempFolder folder;
    const std::string shards = tfrecords(folder, 1, 2000);
    const std::string digests = folder / "digests";
    Program program({"profile", "--tfrecord", shards, "--shuffle", "--batch", "8", "--io", "mmap",
                     "--epochs", "1000000", "--quiet", "--digests", digests});
    ASSERT_TRUE(wait_until([&] { return !read_file(digests).empty() || program.ended(); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(30 * round));
    std::filesystem::resize_file(folder / "part-100", 5000);
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_THAT(outcome.err, AnyOf(HasSubstr("the file has changed since it was found"),
                                   HasSubstr("part-100 was truncated")));
  }
}

/// Runs a command line of a shell; "$0" in it is the program.
int run_shell(const std::string& command) {
  return Process({"/bin/sh", "-c", command, program_path()}).wait();
}

// Each command prints something on both streams: results, and a message about a bad record.
TEST(ClosedStreams, OutputsWithoutMessages) {
  const TempFolder folder;
  ASSERT_EQ(run_program({"synth", folder / "in", "--images", "12", "--classes", "2", "--size",
                         "32x32", "--seed", "3"})
                .code,
            0);
  folder.write("in/0000/bad.jpg", "bad");
  const std::string in = " --images '" + folder / "in" + "' ";
  struct Case {
    std::string name;
    std::string command;  // up to the name of its output
  };
  const Case cases[] = {
      {"records", "pack" + in + "--jpeg coefficients --on-error skip --out "},
      {"digests", "profile" + in + "--batch 4 --epochs 2 --digests "},
      {"report", "profile" + in + "--decode --resize 8 --batch 4 --on-error skip --trace "},
      {"bad", "profile" + in + "--decode --resize 8 --batch 4 --on-error skip --quarantine "},
  };
  for (const Case& one : cases) {
    const std::string open = folder / (one.name + ".open");
    ASSERT_EQ(run_shell("\"$0\" " + one.command + "'" + open + "' >/dev/null 2>&1"), 0)
        << one.command;
    for (const char* closed :
         {"<&- >&- 2>&-", "<&- >&- 2>/dev/null", "</dev/null >&- 2>&-", "<&- >/dev/null 2>&-"}) {
      const std::string output = folder / (one.name + ".closed");
      EXPECT_EQ(run_shell("\"$0\" " + one.command + "'" + output + "' " + closed), 0)
          << one.command << closed;
      if (one.name != "report") {
        EXPECT_EQ(read_file(output), read_file(open)) << one.command;
      }
      EXPECT_EQ(read_file(output).find("penstock: "), std::string::npos) << one.command << closed;
      std::filesystem::remove_all(output);
    }
  }
}

}  // namespace
}  // namespace penstock::test
