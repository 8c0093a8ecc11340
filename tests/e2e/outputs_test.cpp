// What the program writes, where something else stands in the way: nothing is followed that was not
// asked for, nothing is waited for without end, and no two outputs are one file.
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include "tests/support/data.h"
#include "tests/support/program.h"
#include "tests/support/strangers.h"

namespace penstock::test {
namespace outputs_test {

using testing::AnyOf;
using testing::HasSubstr;
using Flags = std::vector<std::string>;
namespace fs = std::filesystem;

constexpr int kLimit_s = 100;

Flags operator+(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Outcome run_within(const Flags& flags) {
  return Program(flags).wait(kLimit_s);
}

class Outputs : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    for (const Flags& flags :
         {Flags{"synth", *folder_ / "in", "--images", "6", "--size", "30x40"},
          Flags{"synth", *folder_ / "digits", "--format", "idx", "--images", "64"}})
      ASSERT_EQ(run_program(flags).code, 0);
  }
  static void TearDownTestSuite() { delete folder_; }

  static Flags profile() { return {"profile", "--quiet", "--range", "40", "--batch", "5"}; }
  static Flags profile_images() {
    return {"profile", "--quiet", "--images", *folder_ / "in", "--decode"};
  }
  static Flags train() {
    const std::string data = *folder_ / "digits/";
    return {"train",   "--quiet", "--model",
            "lenet",   "--data",  data + "images-idx3-ubyte," + data + "labels-idx1-ubyte",
            "--batch", "16"};
  }

  static TempFolder* folder_;
};

TempFolder* Outputs::folder_ = nullptr;

/// A command, an output of its, and what it makes beside that.
struct Case {
  Flags command;  // without the output's path, which comes last
  std::string output;
  std::string beside;  // it has
};

TEST_F(Outputs, NeighbouringFiles) {
  const auto cases = [&](const TempFolder& own) {
    const std::string at = own.path() + "/";
    return std::vector<Case>{
        {profile() + Flags{"--digests", at + "D", "--state", at + "x"}, at + "x", at + "x.partial"},
        {profile() + Flags{"--cache", at + "x"}, at + "x", at + "x.partial"},
        {{"pack", "--images", *folder_ / "in", "--jpeg", "indexed", "--out", at + "x"},
         at + "x",
         at + "x.partial"},
        {profile() + Flags{"--json", at + "x"}, at + "x", at + "x.partial"},
        {profile() + Flags{"--html", at + "x"}, at + "x", at + "x.partial"},
        {profile() + Flags{"--trace", at + "x"}, at + "x", at + "x.partial"},
        {train() + Flags{"--export", at + "x"}, at + "x", at + "x.partial"},
        {train() + Flags{"--checkpoint", at + "steps"}, at + "steps/step-000000000004.safetensors",
         at + "steps/step-000000000004.safetensors.partial"}};
  };
  for (const Stranger& stranger : strangers()) {
    const std::size_t count = cases(TempFolder()).size();
    for (std::size_t i = 0; i < count; ++i) {
      const TempFolder own;
      const Case c = cases(own)[i];
      const std::string what = stranger.name + " at " + c.beside;
      const std::string victim = own.write("victim", "precious");
      fs::create_directories(fs::path(c.beside).parent_path());
      stranger.put(c.beside, victim);
      const Outcome outcome = run_within(c.command);
      EXPECT_EQ(outcome.code, 0) << what << outcome.err;
      EXPECT_TRUE(fs::is_regular_file(c.output)) << what;
      EXPECT_TRUE(stranger.stands(c.beside, victim)) << what;
      EXPECT_EQ(read_file(victim), "precious") << what;
    }
  }
}

/// Where an output is: a link is followed, to nothing yet as well; what is no file is refused, or
/// written to.
TEST_F(Outputs, ThemselvesMayBeLinksAndNeverHang) {
  const struct {
    Flags command;
    bool replaces;  // must be a file
  } kCases[] = {{profile() + Flags{"--digests", "D", "--state"}, true},
                {profile() + Flags{"--on-error", "skip", "--quarantine"}, true},
                {profile() + Flags{"--cache"}, true},
                {profile() + Flags{"--digests"}, false},
                {profile() + Flags{"--json"}, false},
                {profile() + Flags{"--html"}, false},
                {profile() + Flags{"--trace"}, false},
                {{"pack", "--images", *folder_ / "in", "--jpeg", "indexed", "--out"}, true},
                {train() + Flags{"--export"}, false}};
  for (const auto& c : kCases) {
    const TempFolder own;
    Flags command = c.command;
    const auto digests = std::find(command.begin(), command.end(), "D");
    if (digests != command.end()) *digests = own / "D";
    const auto run_to = [&](const std::string& path) { return run_within(command + Flags{path}); };
    const std::string flag = command.back();
    fs::create_symlink("target", own / "dangling");
    const Outcome made = run_to(own / "dangling");
    EXPECT_EQ(made.code, 0) << flag << made.err;
    EXPECT_TRUE(fs::is_symlink(own / "dangling")) << flag;
    EXPECT_TRUE(fs::is_regular_file(own / "target")) << flag;

    fs::create_directory(own / "folder");
    const Outcome folder = run_to(own / "folder");
    EXPECT_EQ(folder.code, 1) << flag << folder.err;

    if (c.replaces) {
      ASSERT_EQ(::mkfifo((own / "pipe").c_str(), 0600), 0);
      for (const std::string& path : {own / "pipe", std::string("/dev/null")}) {
        const Outcome outcome = run_to(path);
        EXPECT_EQ(outcome.code, 1) << flag << " " << path << outcome.err;
        EXPECT_THAT(outcome.err, HasSubstr("not a regular file")) << flag;
      }
      EXPECT_TRUE(fs::is_fifo(own / "pipe")) << flag;
    }
  }
}

TEST_F(Outputs, GoToPipesAndDevices) {
  for (const std::string flag : {"--json", "--html", "--trace", "--digests"}) {
    EXPECT_EQ(run_within(profile() + Flags{flag, "/dev/null"}).code, 0) << flag;
    EXPECT_EQ(run_within(profile() + Flags{flag, "/dev/full"}).code, 1) << flag;
    const TempFolder own;
    ASSERT_EQ(::mkfifo((own / "pipe").c_str(), 0600), 0);
    std::string got;
    {
      const std::jthread reader([&] { got = read_file(own / "pipe"); });
      const Outcome outcome = run_within(profile() + Flags{flag, own / "pipe"});
      EXPECT_EQ(outcome.code, 0) << flag << outcome.err;
    }
    EXPECT_FALSE(got.empty()) << flag;
  }
  const TempFolder own;
  ASSERT_EQ(::mkfifo((own / "pipe").c_str(), 0600), 0);
  const Outcome outcome = run_within(profile() + Flags{"--json", own / "pipe"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("no process reads the pipe"));
}

TEST_F(Outputs, AreNeverOneFile) {
  const auto refused = [](const Flags& flags) {
    const Outcome outcome = run_within(flags);
    EXPECT_EQ(outcome.code, 2) << testing::PrintToString(flags) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("names the same file as")) << testing::PrintToString(flags);
  };
  const Flags kOutputs{"--state", "--digests",    "--json", "--html",
                       "--trace", "--quarantine", "--cache"};
  for (std::size_t a = 0; a < kOutputs.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const TempFolder own;
      Flags flags =
          profile() + Flags{"--on-error", "skip", kOutputs[a], own / "x", kOutputs[b], own / "x"};
      if (b == 0 && a > 1) flags = flags + Flags{"--digests", own / "D"};
      refused(flags);
      EXPECT_EQ(std::distance(fs::directory_iterator(own.path()), {}), 0)
          << "something was written";
    }
  }
  // In other words.
  const TempFolder own;
  own.write("x", "");
  fs::create_directory(own / "folder");
  fs::create_symlink("x", own / "link");
  fs::create_symlink("none", own / "dangling");
  fs::create_hard_link(own / "x", own / "hard");
  for (const auto& [a, b] :
       std::vector<std::pair<std::string, std::string>>{{"x", "link"},
                                                        {"x", "hard"},
                                                        {"x", "folder/../x"},
                                                        {"none", "dangling"},
                                                        {"new", "folder/../new"},
                                                        {"x", "x"}})
    refused(profile() + Flags{"--digests", own / a, "--json", own / b});
  for (const char* companion : {".previous", ".lock"})
    refused(profile() +
            Flags{"--state", own / "S", "--digests", own / (std::string("S") + companion)});
  refused(profile() + Flags{"--json", "-", "--html", "-"});
  refused(train() + Flags{"--json", own / "x", "--export", own / "x"});
  refused({"pack", "--images", *folder_ / "in", "--jpeg", "indexed", "--out", own / "x", "--json",
           own / "x"});
  EXPECT_EQ(run_within(profile() + Flags{"--json", "/dev/null", "--html", "/dev/null"}).code, 0);
}

TEST_F(Outputs, FoldersOfTheRun) {
  const TempFolder own;
  const std::string d = own / "d";
  const Flags images = profile_images() + Flags{"--dump", "2", d};
  const std::vector<std::pair<Flags, int>> cases{
      {images + Flags{"--json", d}, 2},
      {images + Flags{"--trace", d}, 2},
      {images + Flags{"--json", d + "ifferent/report.json"}, 1},
      {images + Flags{"--json", d + "/no/report.json"}, 1},
      {{"synth", d, "--images", "2", "--json", d + "/"}, 1},
      {train() + Flags{"--export-model", d, "--json", d}, 1},
      {train() + Flags{"--checkpoint", d, "--export", d}, 1}};
  for (const auto& [flags, code] : cases) {
    EXPECT_EQ(run_within(flags).code, code) << testing::PrintToString(flags);
    EXPECT_TRUE(fs::is_empty(own.path())) << "there was a run: " << testing::PrintToString(flags);
  }
  EXPECT_EQ(run_within(images + Flags{"--json", d + "/report.json"}).code, 0);
}

TEST_F(Outputs, StateBesideIrregularDigests) {
  const TempFolder own;
  const Outcome outcome =
      run_within(profile() + Flags{"--digests", "/dev/null", "--state", own / "S"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("must be a regular file"));
}

TEST_F(Outputs, KeepTheirModes) {
  for (const std::string flag : {"--json", "--state", "--digests"}) {
    const TempFolder own;
    Flags flags = profile() + Flags{flag, own / "x"};
    if (flag == "--state") flags = flags + Flags{"--digests", own / "D"};
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(run_within(flags).code, 0);
      fs::permissions(own / "x", fs::perms::owner_read | fs::perms::owner_write);
    }
    ASSERT_EQ(run_within(flags).code, 0);
    EXPECT_EQ(fs::status(own / "x").permissions(), fs::perms::owner_read | fs::perms::owner_write)
        << flag;
  }
}

}  // namespace outputs_test
}  // namespace penstock::test
