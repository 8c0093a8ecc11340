// Each file that the program writes, on a disk that is full at any step of it: no damaged file, one
// error or one warning, and the run's data as ever.
//
// PENSTOCK_DISKS=all: with each error, and a disk that has room again or has not (a third of the
// steps of each otherwise); tools/reliability.sh asks for it.
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/figure.h"
#include "tests/support/places.h"
#include "tests/support/program.h"
#include "tests/support/sanitizer.h"

namespace penstock::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Flags = std::vector<std::string>;
namespace fs = std::filesystem;

constexpr int kLimit_s = 100;

Flags operator+(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// How a command is to bear it.
enum class Bears {
  by_an_error,  // it ends with exit code 1 and one line
  by_a_warning  // it says so once and continues
};

/// A command that writes a file, in a folder of its own.
struct Writer {
  std::string name;
  std::string files;  // whose steps fail
  Flags command;
  Bears bears = Bears::by_an_error;
  /// After a failure: throws no exception and expects that no file is damaged.
  std::function<void(const TempFolder& own)> check{};
  /// Files that a command without failures makes, and that are the same however often it was
  /// stopped by a failure and started again.
  std::vector<std::string> results{};
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

class FullDisk : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    data_ = new TempFolder;
    for (const Flags& flags :
         {Flags{"synth", *data_ / "in", "--images", "12", "--size", "30x40"},
          Flags{"synth", *data_ / "bad", "--images", "60", "--size", "20x20", "--corrupt", "20%",
                "--fault", "header"},
          Flags{"synth", *data_ / "digits", "--format", "idx", "--images", "64"}})
      ASSERT_EQ(run_program(flags).code, 0);
  }
  static void TearDownTestSuite() { delete data_; }

  static Flags train() {
    const std::string data = *data_ / "digits/";
    return {"train",
            "--model",
            "lenet",
            "--data",
            data + "images-idx3-ubyte," + data + "labels-idx1-ubyte",
            "--batch",
            "16",
            "--seed",
            "5",
            "--deterministic",
            "--quiet"};
  }
  static Flags range() {
    return {"profile", "--quiet", "--range", "300", "--batch", "7", "--seed", "2"};
  }

  static bool all() {
    const char* disks = std::getenv("PENSTOCK_DISKS");
    return disks != nullptr && std::string(disks) == "all";
  }

  /// A command whose paths begin with "@" has them in `own`.
  static Flags in(const TempFolder& own, Flags command) {
    for (std::string& word : command)
      if (word.starts_with('@')) word = own / word.substr(1);
    return command;
  }

  struct Failure {
    int error = ENOSPC;
    bool stays_full = true;
  };

  void try_all(const Writer& writer);
  /// False if the command has fewer steps.
  bool fail_at(const Writer& writer, int step, Failure failure,
               const std::vector<std::string>& good);

  static TempFolder* data_;
  int failures_ = 0;
};

TempFolder* FullDisk::data_ = nullptr;

bool FullDisk::fail_at(const Writer& writer, int step, Failure failure,
                       const std::vector<std::string>& good) {
  const TempFolder own;
  const TempFolder log;
  const std::string what = writer.name + ", step " + std::to_string(step) + ": " +
                           std::strerror(failure.error) + (failure.stays_full ? ", full" : "");
  for (const std::string& result : writer.results)
    if (result.starts_with("old ")) own.write(result.substr(4), "old");
  const Outcome outcome =
      Program(
          in(own, writer.command), {},
          {"LD_PRELOAD=" + built("libfull_disk.so"), "PENSTOCK_DISK_FILES=" + own / writer.files,
           "PENSTOCK_DISK_STEP=" + std::to_string(step),
           "PENSTOCK_DISK_ERRNO=" + std::to_string(failure.error),
           std::string("PENSTOCK_DISK_FULL=") + (failure.stays_full ? "1" : "0"),
           "PENSTOCK_DISK_LOG=" + log / "log"})
          .wait(kLimit_s);
  if (!fs::exists(log / "log")) {
    EXPECT_EQ(outcome.code, 0) << what << outcome.err;
    return false;
  }
  ++failures_;
  const std::vector<std::string> said = lines_of(outcome.err);
  // A failure that costs nothing, such as one to close what is safe already, need not be said.
  EXPECT_LE(said.size(), 1U) << what << "\n" << outcome.err;
  EXPECT_EQ(outcome.code, writer.bears == Bears::by_an_error && !said.empty() ? 1 : 0) << what;
  for (const std::string& line : said)
    EXPECT_THAT(line, HasSubstr(failure.error == EFBIG ? "too large" : "No space left")) << what;
  if (writer.check) writer.check(own);
  const auto compare = [&] {
    for (std::size_t i = 0; i < writer.results.size(); ++i) {
      const std::string& result = writer.results[i];
      const bool kept = fs::exists(own / result) || writer.files != result;
      if (result.starts_with("old ") || !kept) continue;
      EXPECT_EQ(read_file(own / result), good[i]) << what << " " << result;
    }
  };
  if (outcome.code == 0) compare();
  // There is room again.
  const Outcome again = Program(in(own, writer.command)).wait(kLimit_s);
  EXPECT_EQ(again.code, 0) << what << again.err;
  EXPECT_EQ(again.err, "") << what;
  compare();
  for (const auto& entry : fs::recursive_directory_iterator(own.path()))
    EXPECT_THAT(entry.path().filename().string(), testing::Not(HasSubstr(".partial"))) << what;
  return true;
}

void FullDisk::try_all(const Writer& writer) {
  if (kAddressSanitizer || kThreadSanitizer) GTEST_SKIP() << "it has the C library to itself";
  const TempFolder own;
  const Outcome whole = run_program(in(own, writer.command));
  ASSERT_EQ(whole.code, 0) << whole.err;
  std::vector<std::string> good;
  for (const std::string& result : writer.results)
    good.push_back(result.starts_with("old ") ? "" : read_file(own / result));
  std::vector<Failure> kinds;
  for (const int error : {ENOSPC, EFBIG})
    for (const bool full : {true, false}) kinds.push_back({error, full});
  for (int step = 1;; ++step) {
    ASSERT_LT(step, 1000);
    bool failed = false;
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      if (!all() && kind != static_cast<std::size_t>(step) % kinds.size()) continue;
      failed = fail_at(writer, step, kinds[kind], good);
    }
    if (!failed) break;
  }
  EXPECT_GT(failures_, 2) << writer.name;
  figure("F8", "%s: %d failures of a full disk", writer.name.c_str(), failures_);
}

/// Whole lines, the first of those of a run that nothing stopped.
std::function<void(const TempFolder&)> is_beginning(const std::string& name,
                                                    const std::string& all) {
  return [=](const TempFolder& own) {
    const std::string lines = read_file(own / name);
    EXPECT_THAT(all, StartsWith(lines));
    EXPECT_TRUE(lines.empty() || lines.ends_with('\n'));
  };
}

/// Old or new, and nothing between.
std::function<void(const TempFolder&)> is_old_or(const std::string& name, const std::string& end) {
  return [=](const TempFolder& own) {
    const std::string text = read_file(own / name);
    EXPECT_TRUE(text == "old" || (text.size() > 100 && text.ends_with(end))) << text;
  };
}

TEST_F(FullDisk, StatesAndDigests) {
  const TempFolder own;
  ASSERT_EQ(run_program(in(own, range() + Flags{"--digests", "@D"})).code, 0);
  const std::string digests = read_file(own / "D");
  const Flags command = range() + Flags{"--digests", "@D", "--state", "@S", "--save-every", "15"};
  try_all({"state", "S", command, Bears::by_an_error, is_beginning("D", digests), {"D"}});
  failures_ = 0;
  try_all({"digests", "D", command, Bears::by_an_error, is_beginning("D", digests), {"D"}});
}

TEST_F(FullDisk, Caches) {
  try_all({"cache",
           "C",
           range() + Flags{"--epochs", "2", "--cache", "@C", "--digests", "@D"},
           Bears::by_a_warning,
           {},
           {"D", "C"}});
}

TEST_F(FullDisk, Quarantines) {
  const TempFolder own;
  const Flags command{
      "profile",    "--quiet", "--images",     *data_ / "bad", "--resize",  "8x8", "--batch", "7",
      "--on-error", "skip",    "--quarantine", "@Q",           "--digests", "@D",  "--seed",  "1",
      "--threads",  "1"};
  ASSERT_EQ(run_program(in(own, command)).code, 0);
  const std::string whole = read_file(own / "Q");
  ASSERT_GT(lines_of(whole).size(), 5U);
  try_all({"quarantine",
           "Q",
           command,
           Bears::by_a_warning,
           [](const TempFolder& at) {
             for (const std::string& line : lines_of(read_file(at / "Q")))
               EXPECT_TRUE(nlohmann::json::accept(line)) << line;
           },
           {"D"}});
}

TEST_F(FullDisk, Checkpoints) {
  try_all({"checkpoint",
           "steps/step-",
           train() + Flags{"--checkpoint", "@steps", "--checkpoint-every", "2", "--export", "@V"},
           Bears::by_an_error,
           {},
           {"V"}});
  failures_ = 0;
  try_all({"variables",
           "V",
           train() + Flags{"--max-steps", "1", "--export", "@V"},
           Bears::by_an_error,
           [](const TempFolder& own) { EXPECT_FALSE(fs::exists(own / "V.partial")); },
           {"V"}});
}

TEST_F(FullDisk, ImageRecords) {
  try_all({"pack",
           "P",
           {"pack", "--images", *data_ / "in", "--jpeg", "indexed", "--out", "@P", "--quiet",
            "--json", "/dev/null"},
           Bears::by_an_error,
           {},
           {"P"}});
}

TEST_F(FullDisk, Reports) {
  for (const auto& [flag, end] :
       {std::pair{"--json", "}\n"}, {"--html", "</html>\n"}, {"--trace", "\n"}}) {
    failures_ = 0;
    try_all({flag,
             "R",
             range() + Flags{flag, "@R"},
             Bears::by_an_error,
             is_old_or("R", end),
             {"old R"}});
  }
}

TEST_F(FullDisk, TensorBoard) {
  try_all({"TensorBoard",
           "E/",
           train() + Flags{"--tensorboard", "@E", "--export", "@V"},
           Bears::by_a_warning,
           [](const TempFolder& own) {
             for (const auto& entry : fs::directory_iterator(own / "E")) {
               const std::string bytes = read_file(entry.path());
               std::size_t at = 0;
               while (at + 12 <= bytes.size()) {
                 std::uint64_t size = 0;
                 for (std::size_t i = 8; i-- > 0;)
                   size = size << 8 | static_cast<unsigned char>(bytes[at + i]);
                 at += 16 + size;
               }
               EXPECT_EQ(at, bytes.size()) << "a record is not whole";
             }
           },
           {"V"}});
}

}  // namespace
}  // namespace penstock::test
