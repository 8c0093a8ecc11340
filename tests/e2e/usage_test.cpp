// Exit codes and messages for everything a user can get wrong.
#include <algorithm>

#include <gmock/gmock.h>

#include <sys/stat.h>

#include "tests/support/program.h"

namespace penstock::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using Flags = std::vector<std::string>;

TEST(Usage, NamesWhatIsWrongAndWhere) {
  const TempFolder folder;
  const std::string toml = folder.write("bad.toml",
                                        "[source]\nkind = \"range\"\nstop = 9\n"
                                        "[[stages]]\nkind = \"batch\"\nsize = 0\n");
  folder.write("images/cat/1.jpg", "");
  const std::string images = folder / "images";
  const struct {
    Flags flags;
    int code;
    const char* text;
  } kCases[] = {
      {{}, 2, ""},
      {{"profiel"}, 2, "there is no subcommand profiel; did you mean profile?"},
      {{"profile"}, 2, "there is no source"},
      {{"profile", "--range", "x"}, 2, "expected an integer, got \"x\" (--range)"},
      {{"profile", "--range", "3", "--bacth", "4"}, 2, "no flag --bacth; did you mean --batch?"},
      {{"profile", "--range", "3", "--bacth=4"}, 2, "no flag --bacth; did you mean --batch?"},
      {{"profile", "--range", "3", "--quiet", "x"}, 2, "unexpected path \"x\""},
      {{"profile", "x", "--range", "3"},
       2,
       "unexpected path \"x\": there is already a source, --range"},
      {{"profile", folder / "none"}, 1, "none"},
      {{"profile", images + "/cat/1.jpg", toml},
       2,
       "no source reads all of these: 1 JPEG (--images), 1 text (--lines)"},
      {{"help", "profiel"}, 2, "there is no subcommand profiel; did you mean profile?"},
      {{"profile", "--images", "oci://bucket/photos"}, 2, "oci:// is not supported by this build"},
      {{"profile", "oci://bucket/photos"}, 2, "oci:// is not supported by this build"},
      {{"profile", "--pipeline", "s3://bucket/a.toml"}, 2, "s3:// is for data"},
      {{"synth", "http://host/photos"}, 2, "HTTP has no atomic writes"},
      {{"inspect", "hdfs://host/a.tar"}, 1, "hdfs:// is not supported by this build"},
      {{"profile", "--range", "3", "--state", "http://h/x", "--digests", folder / "d"},
       2,
       "HTTP has no atomic writes"},
      {{"profile", "--range", "3", "--json", "s3://b/x"}, 2, "s3:// is for data"},
      {{"profile", "--tar", "oci://bucket/a-*.tar"}, 2, "oci:// is not supported by this build"},
      {{"profile", "--range", "3", "--json", "http://host/x"},
       2,
       "http:// is for reading data only"},
      {{"profile", "--range", "3", "--batch", "2", "--shuffle"},
       2,
       "put shuffle before batch (--shuffle before --batch)"},
      {{"inspect", "x", "--jso", "-"}, 2, "did you mean --json?"},
      {{"profile", "--range", "3", "--batch", "0"}, 2, "size must be at least 1, got 0 (--batch)"},
      {{"profile", "--range", "3", "--resize", "5"}, 2, "image"},
      {{"profile", "--images", images, "--label-regex", "^(cat)_"}, 2, "add a / to match the path"},
      {{"profile", "--synthetic", "count=3,image=8x8", "--color-jitter"}, 2, "above 0, as in 0.4"},
      {{"explain", "--synthetic", "count=3,image=8x8", "--color-jitter", "0,hue=0"},
       2,
       "needs a half width above 0"},
      {{"profile", "--images", images, "--decode", "lenient=true", "--strict-images"},
       2,
       "can't be combined with lenient"},
      {{"profile", "--range", "3", "--strict-images"}, 2, "applies to no stage of this pipeline"},
      {{"profile", "--range", "3", "--center-crop"}, 2, "needs a size"},
      {{"profile", "--range", "3", "--max-errors", "3"}, 2, "--on-error skip"},
      {{"profile", "--range", "3", "--io", "tape"}, 2, "must be one of pread, io_uring, mmap"},
      {{"profile", "--range", "9", "--batch", "2", "--device", "gpu:0"}, 2, "is not a device"},
      {{"profile", "--range", "9", "--device", "host:0"}, 2, "ends with range"},
      {{"profile", "--range", "9", "--batch", "3", "--device", "host:0,host:1", "--feed", "split"},
       2,
       "can't be divided among 2"},
      {{"profile", "--range", "9", "--batch", "2", "--feed", "split"}, 2, "--device"},
      {{"profile", "--range", "9", "--batch", "2", "--device", "host:0,host:1", "--digest"},
       2,
       "one device only (--digest)"},
      {{"profile", "--range", "9", "--on-device", "--decode"}, 2, "needs --device"},
      {{"profile", "--range", "9", "--batch", "2", "--device", "host:0", "--feed", "x"},
       2,
       "x not in {split,per_tower,sharded}"},
      {{"profile", "--range", "9", "--device", "host:0", "--epoch-end", "1"},
       2,
       "1 not in {drop,pad,wrap,stop}"},
      {{"profile", "--range", "9", "--device", "host:0", "--pace", "x"}, 2, "x not in {step,free}"},
      {{"profile", "--range", "9", "--batch", "2", "--device", "host:0", "--device-memory", "1"},
       1,
       "a slot takes"},
      {{"profile", "--pipeline", toml}, 2, "bad.toml:6 stages[0].size"},
      {{"profile", "--pipeline", folder / "none.toml"}, 1, "can't read the pipeline: No such file"},
      {{"profile", "--pipeline", folder.path()}, 1, "can't read the pipeline: Is a directory"},
      {{"replay", "--range", "3", "--record", "none,1"}, 1, "can't read the file: No such file"},
      {{"predict", "--export", "none", "--data", "none"}, 1, "can't read the model: No such file"},
      {{"unpack", folder.path(), "--out", folder / "out"}, 1, "Is a directory"},
      {{"train", "--model", "wide_deep", "--columns", "none", "--data", "none"},
       1,
       "can't read the columns: No such file"},
      {{"profile", "--images", folder / "none"}, 1, "none"},
      {{"profile", "--tar", folder / "none.tar"}, 1, "none.tar"},
      {{"profile", "--range", "1000000", "--batch", "1000000", "--memory", "1MiB"}, 1, "8000000"},
      {{"profile", "--range", "3", "--digests", folder / "no/such"}, 1, "no/such"},
      {{"profile", "--range", "3", "--json", folder / "no/such"}, 1, "No such file"},
      {{"profile", "--range", "3", "--dump", "1", folder / "dump"}, 2, "no images"},
      {{"profile", "--range", "3", "--dump", "x", folder / "dump"}, 2, "(--dump)"},
      {{"profile", "--range", "3", "--threads", "1024"}, 2, "must be at most 1023, got 1024"},
      {{"verify", folder.path(), "--threads", "1024"}, 2, "1024"},
      {{"profile", "--range", "3", "--seconds", "nan"}, 2, "a finite number above 0, not nan"},
      {{"profile", "--range", "3", "--seconds", "inf"}, 2, "a finite number above 0, not inf"},
      {{"profile", "--range", "3", "--watchdog", "0"}, 2, "a finite number above 0, not 0"},
      {{"explain", "--range", "3", "--seconds", "-1"}, 2, "a finite number above 0, not -1"},
      {{"train", "--model", "x", "--clip-norm", "nan"}, 2, "a finite number above 0, not nan"},
      {{"train", "--model", "x", "--epochs", "0"}, 2, "a finite number above 0, not 0"},
      {{"synth", folder / "x", "--heavy-tail", "nan"}, 2, "must be a number (--heavy-tail)"},
      {{"explain"}, 2, "there is no source"},
      {{"inspect"}, 2, "PATH"},
      {{"inspect", folder / "none"}, 1, "none"},
      {{"verify", folder / "none"}, 1, "No such file"},
      {{"serve", "--memory", "1"},
       1,
       "a worker of 4 runs at a time needs at least 4194304 bytes beside its cache of 0"},
      {{"synth"}, 2, "OUT"},
      {{"synth", folder / "x", "--format", "rar"}, 2, "there is no format \"rar\""},
      {{"synth", folder / "x", "--fault", "flip"}, 2, "needs --corrupt (--fault)"},
      {{"synth", folder / "x", "--corrupt", "1%", "--fault", "flipp"}, 2, "did you mean flip?"},
      {{"synth", folder / "x", "--size", "0x4"}, 2, "(--size)"},
      {{"synth", folder.path()}, 2, "is not empty"},
      {{"synth", "/proc/none"}, 1, "/proc/none"},
  };
  for (const auto& c : kCases) {
    std::string line;
    for (const std::string& flag : c.flags) line += flag + " ";
    const Outcome outcome = run_program(c.flags);
    EXPECT_EQ(outcome.code, c.code) << line << outcome.err;
    if (*c.text == '\0') continue;
    EXPECT_THAT(outcome.err, AllOf(StartsWith("penstock: "), HasSubstr(c.text))) << line;
  }
}

TEST(Usage, UnwritableOutput) {
  const TempFolder folder;
  const std::string none = folder / "no/such";
  for (const char* flag : {"--json", "--html", "--trace"}) {
    const Outcome outcome = run_program({"profile", "--range", "3", flag, none});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("can't write: No such file"), HasSubstr(none)));
    EXPECT_THAT(outcome.out, IsEmpty()) << "there was a run";
  }
  const std::string csv = folder.write("a.csv", "a,b\n1,2\n");
  for (const char* command : {"verify", "inspect"})
    EXPECT_THAT(run_program({command, csv, "--json", none}).out, IsEmpty()) << command;
  // What is there is replaced at the end and not before; nothing is left where nothing is written.
  const std::string old = folder.write("old.json", "old");
  EXPECT_EQ(run_program({"profile", "--images", folder / "none", "--json", old}).code, 1);
  EXPECT_EQ(read_file(old), "old");
  EXPECT_EQ(run_program({"profile", "--images", folder / "none", "--json", folder / "new"}).code,
            1);
  EXPECT_FALSE(std::filesystem::exists(folder / "new"));
}

TEST(Usage, UnwritableStateOrRecords) {
  const TempFolder folder;
  const std::string none = folder / "no/such";
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  folder.write("in/a.jpg", "");
  const struct {
    std::string path;
    const char* text;
  } kCases[] = {{none, "No such file"}, {folder.path(), "directory"}, {pipe, "not a regular file"}};
  for (const auto& c : kCases) {
    for (const Flags& flags :
         {Flags{"profile", "--range", "9", "--digests", folder / "log", "--state", c.path},
          Flags{"profile", "--range", "9", "--batch", "3", "--device", "host:0", "--state", c.path},
          Flags{"pack", "--images", folder / "in", "--jpeg", "indexed", "--out", c.path}}) {
      const Outcome outcome = run_program(flags);
      EXPECT_EQ(outcome.code, 1) << flags.front() << c.path;
      EXPECT_THAT(outcome.err, AllOf(HasSubstr(c.text), HasSubstr(c.path)));
      EXPECT_THAT(outcome.out, IsEmpty()) << "there was a run";
    }
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "log"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() + ".partial"));
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

TEST(Usage, FullStandardOutput) {
  const TempFolder folder;
  const std::string csv = folder.write("a.csv", "a,b\n1,2\n");
  const Flags range{"--range", "9", "--batch", "3", "--seed", "1"};
  std::vector<Flags> lines{{"--help"},
                           {"--version"},
                           {"--limits"},
                           {"verify", csv},
                           {"inspect", csv},
                           {"synth", folder / "out", "--images", "1"},
                           {"profile"},
                           {"explain"},
                           {"check-determinism"},
                           {"replay", "--at", "0,1"}};
  for (std::size_t i = 6; i < lines.size(); ++i)
    lines[i].insert(lines[i].end(), range.begin(), range.end());
  for (const Flags& flags : lines) {
    const Outcome outcome = run_program(flags, "/dev/full");
    EXPECT_EQ(outcome.code, 1) << flags.front();
    EXPECT_THAT(outcome.err, HasSubstr("can't write")) << flags.front();
  }
}

TEST(Usage, HelpOfEveryCommand) {
  for (const char* command :
       {"profile", "explain", "inspect", "verify", "check-determinism", "replay", "synth", "pack",
        "unpack", "train", "evaluate", "predict", "report"}) {
    const Outcome outcome = run_program({command, "--help"});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.out, HasSubstr(std::string("Example:\n  penstock ") + command));
    EXPECT_THAT(outcome.err, IsEmpty());
    EXPECT_TRUE(std::ranges::all_of(outcome.out, [](char c) {
      return c == '\n' || static_cast<unsigned char>(c) >= ' ';
    })) << command;
  }
  EXPECT_THAT(run_program({"--help"}).out, HasSubstr("profile"));
}

TEST(Usage, HelpCommand) {
  for (const char* command : {"profile", "explain", "train"}) {
    const Outcome outcome = run_program({"help", command});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.out, run_program({command, "--help"}).out);
  }
  const Outcome all = run_program({"help"});
  EXPECT_EQ(all.code, 0);
  EXPECT_EQ(all.out, run_program({"--help"}).out);
}

TEST(Usage, SeedInHelp) {
  for (const auto& [command, text] : {std::pair{"profile", "random, and printed"},
                                      {"explain", "(default: 0)"},
                                      {"check-determinism", "(default: 1)"},
                                      {"replay", "required with --at"}})
    EXPECT_THAT(run_program({command, "--help"}).out, HasSubstr(text)) << command;
}

TEST(Usage, TellsVersionAndLimits) {
  const Outcome version = run_program({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.out, AllOf(HasSubstr("jpeg"), HasSubstr("TBB"), HasSubstr("CUDA")));
  const Outcome limits = run_program({"--limits"});
  EXPECT_EQ(limits.code, 0);
  EXPECT_THAT(limits.out, AllOf(HasSubstr("max_record_bytes"), HasSubstr("256.0 MiB"),
                                HasSubstr("max_pixels"), HasSubstr("100,000,000")));
}

}  // namespace
}  // namespace penstock::test
