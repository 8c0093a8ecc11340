// Files on file systems that lack something: of servers, of virtual machines, of FUSE. Each oddness
// is played for every source and every writer of the program.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/io/fs_support.h"
#include "tests/support/places.h"
#include "tests/support/program.h"
#include "tests/support/sanitizer.h"

namespace penstock::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using Flags = std::vector<std::string>;
namespace fs = std::filesystem;

constexpr int kLimit_s = 100;
constexpr const char* kNfs = "type=0x6969";
constexpr const char* kFuse = "type=0x65735546";

Flags operator+(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// A command that writes a file. "@" stands for a folder of its own.
struct Writer {
  std::string name;
  Flags command;
  Flags results;  // files that are the same on every file system
};

class OddFs : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    data_ = new TempFolder;
    const Flags images{"--images", "12", "--size", "30x40"};
    for (const Flags& flags :
         {Flags{"synth", *data_ / "photos"} + images,
          Flags{"synth", *data_ / "tar", "--format", "tar"} + images,
          Flags{"synth", *data_ / "tfrecord", "--format", "tfrecord"} + images,
          Flags{"synth", *data_ / "bad", "--images", "60", "--size", "20x20", "--corrupt", "20%",
                "--fault", "header"},
          Flags{"pack", "--jpeg", "coefficients", "--images", *data_ / "photos", "--out",
                *data_ / "x.pnr"},
          Flags{"synth", *data_ / "digits", "--format", "idx", "--images", "64"}}) {
      const Outcome made = run_program(flags);
      ASSERT_EQ(made.code, 0) << made.err;
    }
    std::string csv = "a,b\n";
    for (int i = 0; i < 40; ++i) csv += std::to_string(i) + "," + std::to_string(i * i) + "\n";
    data_->write("t.csv", csv);
    data_->write("raw.bin", std::string(1024, 'r'));
  }
  static void TearDownTestSuite() { delete data_; }
  void SetUp() override {
    if (kAddressSanitizer || kThreadSanitizer) GTEST_SKIP() << "it has the C library to itself";
  }

  /// Runs a command, for which files below `folder` are odd.
  static Outcome run_odd(const Flags& command, const std::string& folder, const std::string& odd,
                         const std::string& log) {
    return Program(command, {},
                   {"LD_PRELOAD=" + built("libodd_fs.so"), "PENSTOCK_ODD_FOLDER=" + folder,
                    "PENSTOCK_ODD=" + odd, "PENSTOCK_ODD_LOG=" + log,
                    "PENSTOCK_INDEX_DIR=" + *data_ / "indices"})
        .wait(kLimit_s);
  }

  static Flags in(const TempFolder& own, Flags command) {
    for (std::string& word : command)
      if (word.starts_with('@')) word = own / word.substr(1);
    return command;
  }

  static std::vector<Writer> writers() {
    const std::string digits = *data_ / "digits/";
    const Flags range{"profile", "--quiet", "--range", "300", "--batch", "7", "--seed", "2"};
    const Flags bad{"profile", "--quiet", "--images", *data_ / "bad", "--decode", "--resize",
                    "8x8",     "--batch", "4",        "--on-error",   "skip"};
    return {{"state", range + Flags{"--digests", "@d", "--state", "@s"}, {"d"}},
            {"cache", range + Flags{"--cache", "@c", "--epochs", "2", "--digests", "@d"}, {"d"}},
            {"quarantine", bad + Flags{"--quarantine", "@q"}, {"q"}},
            {"pack",
             {"pack", "--jpeg", "coefficients", "--images", *data_ / "photos", "--out", "@x.pnr"},
             {"x.pnr"}},
            {"synth",
             {"synth", "@tf", "--force", "--format", "tfrecord", "--images", "4", "--size", "9x9"},
             {}},
            {"training",
             {"train", "--model", "lenet", "--data",
              digits + "images-idx3-ubyte," + digits + "labels-idx1-ubyte", "--batch", "16",
              "--seed", "5", "--deterministic", "--quiet", "--checkpoint", "@k", "--export",
              "@e.safetensors", "--json", "@j"},
             {"e.safetensors"}}};
  }

  struct Read {
    std::string name;
    Flags flags;
  };
  static std::vector<Read> reads() {
    const Flags pixels{"--decode", "--resize", "8x8"};
    const std::string digits = *data_ / "digits/";
    return {{"images", Flags{"--images", *data_ / "photos"} + pixels},
            {"tar", Flags{"--tar", *data_ / "tar/*.tar"} + pixels},
            {"tfrecord", {"--tfrecord", *data_ / "tfrecord/*.tfrecord"}},
            {"records", Flags{"--records", *data_ / "x.pnr"} + pixels},
            {"fixed", {"--records", *data_ / "raw.bin", "--record-bytes", "64"}},
            {"csv", {"--csv", *data_ / "t.csv"}},
            {"lines", {"--lines", *data_ / "t.csv"}},
            {"idx", {"--idx", digits + "images-idx3-ubyte," + digits + "labels-idx1-ubyte"}}};
  }
  static Flags reading(const Read& read, const std::string& io) {
    return Flags{"profile", "--quiet"} + read.flags +
           Flags{"--epochs", "3",    "--batch", "4",      "--seed", "3",
                 "--digest", "--io", io,        "--json", "-"};
  }

  static TempFolder* data_;
};

TempFolder* OddFs::data_ = nullptr;

/// How often a command says something on an odd file system.
enum class Says { nothing, one_warning };

struct Oddness {
  std::string setting;
  Says says = Says::nothing;
  std::string warning{};
};

std::vector<Oddness> oddnesses_of_writers() {
  std::vector<Oddness> all{{"nfs4"}, {"ino"},     {std::string("ino,") + kFuse},
                           {"dev"},  {"mtime-s"}, {"one-ino"}};
  for (const Unsupported& one : unsupported_calls()) {
    const std::string error = "=" + std::to_string(one.error);
    switch (one.call) {
      case FsCall::lock:
        all.push_back({"flock" + error, Says::one_warning, "no locks"});
        break;
      case FsCall::sync_file:
        all.push_back({"fsync" + error, Says::one_warning, "can't sync files"});
        break;
      case FsCall::sync_folder:
        all.push_back({"fsyncdir" + error});
        all.push_back({"opendir" + error});
        break;
      case FsCall::set_mode:
        all.push_back({"fchmod" + error});
        break;
      case FsCall::check_access:
        all.push_back({"faccessat" + error});
        break;
      case FsCall::nameless_file:
        all.push_back({"tmpfile" + error});
        break;
      case FsCall::map:
        break;  // of readers
    }
  }
  return all;
}

/// True if a command can meet the oddness in its own way; otherwise another command stands for it.
bool concerns(const std::string& setting, const std::string& writer) {
  const auto is_one_of = [&](std::initializer_list<const char*> names) {
    return std::ranges::find(names, writer) != names.end();
  };
  if (setting.starts_with("tmpfile")) return writer == "quarantine";
  if (setting.starts_with("fchmod") || setting.starts_with("faccessat"))
    return is_one_of({"pack", "state"});
  if (writer == "synth") return setting == "nfs4" || setting.ends_with("=22");
  if (writer == "training") return !setting.starts_with("f") || setting.ends_with("=22");
  return true;
}

// Each command runs twice in the folder, so that it also replaces or continues what is there.
TEST_F(OddFs, Writers) {
  std::size_t played = 0;
  for (const Writer& writer : writers()) {
    std::vector<std::string> expected;
    {
      const TempFolder own;
      const Outcome whole = run_program(in(own, writer.command));
      ASSERT_EQ(whole.code, 0) << whole.err;
      for (const std::string& result : writer.results) expected.push_back(read_file(own / result));
    }
    for (const Oddness& oddness : oddnesses_of_writers()) {
      if (!concerns(oddness.setting, writer.name)) continue;
      SCOPED_TRACE(writer.name + " with " + oddness.setting);
      const TempFolder own;
      const TempFolder log;
      for (const std::string& result : writer.results)
        if (result == "q" || result == "x.pnr") own.write(result, "");
      if (writer.name == "pack") fs::permissions(own / "x.pnr", fs::perms(0640));
      for (int round = 0; round < 2; ++round) {
        const Outcome outcome =
            run_odd(in(own, writer.command), own.path(), oddness.setting, log / "log");
        EXPECT_EQ(outcome.code, 0) << outcome.err;
        const std::vector<std::string> said = lines_of(outcome.err);
        if (oddness.says == Says::nothing) {
          EXPECT_THAT(said, IsEmpty());
        } else {
          EXPECT_LE(said.size(), 1U) << outcome.err;
          for (const std::string& line : said) EXPECT_THAT(line, HasSubstr(oddness.warning));
        }
        for (std::size_t i = 0; i < writer.results.size(); ++i)
          EXPECT_EQ(read_file(own / writer.results[i]), expected[i]) << writer.results[i];
      }
      played += fs::exists(log / "log") ? 1 : 0;
      for (const auto& entry : fs::recursive_directory_iterator(own.path()))
        EXPECT_THAT(entry.path().filename().string(), testing::Not(HasSubstr(".partial")));
    }
  }
  EXPECT_GT(played, 50U);
}

// Numbers and times that say nothing about contents.
TEST_F(OddFs, Readers) {
  const std::vector<Oddness> all{
      {"ino"},
      {"one-ino"},
      {std::string("ino,dev,") + kFuse},
      {"dev"},
      {"mtime-s"},
      {std::string("ctime,") + kNfs, Says::one_warning, "has changed the ctime"},
      {std::string("ctime,ino,") + kFuse, Says::one_warning, "has changed the ctime"},
      {"mmap=" + std::to_string(ENODEV), Says::one_warning, "can't map files"}};
  for (const Read& read : reads()) {
    const Outcome plain = run_program(reading(read, "pread"));
    ASSERT_EQ(plain.code, 0) << read.name << plain.err;
    for (const Oddness& oddness : all) {
      for (const std::string io : {"pread", "io_uring", "mmap"}) {
        if (oddness.setting.starts_with("mmap") && io != "mmap") continue;
        SCOPED_TRACE(read.name + " by " + io + " with " + oddness.setting);
        const TempFolder log;
        const Outcome outcome =
            run_odd(reading(read, io), data_->path(), oddness.setting, log / "log");
        ASSERT_EQ(outcome.code, 0) << outcome.err;
        EXPECT_EQ(outcome.json()["digest"], plain.json()["digest"]);
        EXPECT_EQ(outcome.json()["elements"], plain.json()["elements"]);
        const std::vector<std::string> said = lines_of(outcome.err);
        EXPECT_LE(said.size(), oddness.says == Says::nothing ? 0U : 1U) << outcome.err;
        for (const std::string& line : said) EXPECT_THAT(line, HasSubstr(oddness.warning));
      }
    }
  }
}

TEST_F(OddFs, EveryErrorOfMaps) {
  for (const Unsupported& one : unsupported_calls()) {
    if (one.call != FsCall::map) continue;
    const TempFolder log;
    const Outcome outcome = run_odd(reading(reads()[1], "mmap"), data_->path(),
                                    "mmap=" + std::to_string(one.error), log / "log");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("can't map files"));
    EXPECT_TRUE(fs::exists(log / "log"));
  }
}

// On a disk of this machine, another ctime means that the file may have been written over.
TEST_F(OddFs, CtimesOfLocalFiles) {
  const TempFolder log;
  for (const std::string policy : {"fail", "skip", "retry"}) {
    const Flags command = reading(reads()[0], "pread") + Flags{"--on-error", policy};
    const Outcome outcome = run_odd(command, data_->path(), "ctime", log / "log");
    EXPECT_EQ(outcome.code, 1) << policy;
    EXPECT_THAT(outcome.err, HasSubstr("--trust-data")) << policy;
    const Outcome trusted =
        run_odd(command + Flags{"--trust-data"}, data_->path(), "ctime", log / "log");
    EXPECT_EQ(trusted.code, 0) << trusted.err;
  }
}

// Two data sets whose files the file system does not tell apart by number, size or times: a state
// of one does not fit the other, whatever an earlier run remembers of it.
TEST_F(OddFs, StatesOfFilesWithOneNumber) {
  const TempFolder own;
  const TempFolder log;
  own.write("a/x.bin", std::string(4096, 'a'));
  own.write("b/x.bin", std::string(4096, 'b'));
  const fs::file_time_type old = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (const std::string name : {"a/x.bin", "b/x.bin"}) fs::last_write_time(own / name, old);
  const auto command = [&](const std::string& folder, const Flags& more) {
    return Flags{"profile",        "--quiet", "--records", own / folder + "/x.bin",
                 "--record-bytes", "64",      "--batch",   "4",
                 "--digests",      own / "d", "--state",   own / "s"} +
           more;
  };
  const std::string odd = std::string("one-ino,same-times,") + kFuse;
  const Outcome first = run_odd(command("a", {"--batches", "3"}), own.path(), odd, log / "log");
  ASSERT_EQ(first.code, 0) << first.err;
  const Outcome other = run_odd(command("b", {}), own.path(), odd, log / "log");
  EXPECT_NE(other.code, 0);
  EXPECT_THAT(other.err, HasSubstr("x.bin"));
  const Outcome same = run_odd(command("a", {}), own.path(), odd, log / "log");
  EXPECT_EQ(same.code, 0) << same.err;
}

}  // namespace
}  // namespace penstock::test
