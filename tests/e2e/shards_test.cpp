// synth, inspect and explain from the outside.
#include <sys/stat.h>

#include <gmock/gmock.h>

#include "tests/support/program.h"

namespace penstock::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Flags = std::vector<std::string>;
using nlohmann::json;

/// All files below a folder: name and contents.
std::map<std::string, std::string> contents(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      files[std::filesystem::relative(entry.path(), folder).string()] = read_file(entry.path());
  return files;
}

TEST(Synth, WritesTheSameBytesForAnyThreads) {
  for (const char* format : {"folder", "tar", "tfrecord", "cifar10", "idx", "csv"}) {
    const TempFolder folder;
    for (const char* threads : {"1", "3"}) {
      Flags flags{"synth", folder / threads, "--images", "70",     "--format",
                  format,  "--threads",      threads,    "--seed", "5"};
      if (std::string(format) == "folder")
        flags.insert(flags.end(),
                     {"--size", "20x20..60x80", "--heavy-tail", "1", "--corrupt", "9%"});
      ASSERT_EQ(run_program(flags).code, 0);
    }
    EXPECT_EQ(contents(folder / "1"), contents(folder / "3")) << format;
  }
}

TEST(Synth, SplitsIntoShards) {
  const TempFolder folder;
  ASSERT_EQ(run_program({"synth", folder / "a", "--images", "10", "--format", "tfrecord",
                         "--shards", "4", "--size", "16x16"})
                .code,
            0);
  std::vector<int> records;
  for (int shard = 0; shard < 4; ++shard) {
    const std::string name = "a/data-0000" + std::to_string(shard) + "-of-00004.tfrecord";
    records.push_back(run_program({"inspect", folder / name, "--json", "-"}).json()[0]["records"]);
  }
  EXPECT_EQ(records, (std::vector<int>{3, 3, 2, 2}));
  ASSERT_EQ(run_program({"synth", folder / "b", "--images", "2", "--format", "tar", "--shards", "4",
                         "--size", "16x16"})
                .code,
            0);
  EXPECT_EQ(contents(folder / "b").size(), 4U) << "empty shards are shards";
  EXPECT_EQ(profile_json({"--tar", folder / "b/*.tar"})["elements"], 2);
}

TEST(Synth, WritesEmptyShardsThatAreGood) {
  for (const Flags& format :
       {Flags{"tar"}, Flags{"tfrecord"}, Flags{"tfrecord", "--compression", "gzip"},
        Flags{"tfrecord", "--compression", "zlib"}}) {
    const TempFolder folder;
    Flags flags{"synth", folder / "a", "--images", "3", "--shards", "5", "--format"};
    flags.insert(flags.end(), format.begin(), format.end());
    ASSERT_EQ(run_program(flags).code, 0);
    const Outcome verified = run_program({"verify", folder / "a"});
    EXPECT_EQ(verified.code, 0) << format[0];
    EXPECT_THAT(verified.out, HasSubstr("3 good, 0 bad records in 5 shards")) << format[0];
    EXPECT_EQ(run_program({"inspect", folder / "a"}).code, 0) << format[0];
  }
}

TEST(Verify, WhatIsEmptyIsGoodOnlyWhereThatIsAFormat) {
  const TempFolder folder;
  for (const auto& [name, size, good] : {std::tuple{"a.tfrecord", 0, true},
                                         {"a.tfrecord", 4096, false},
                                         {"a.tar", 1024, true},
                                         {"a.tar", 10240, true},
                                         {"a.jpg", 0, false},
                                         {"a.npy", 0, false},
                                         {"a.pnr", 0, false},
                                         {"a.dat", 0, false},
                                         {"a.dat", 1024, false},
                                         {"idx3-ubyte", 0, false}}) {
    const std::string path = folder.write(name, std::string(static_cast<std::size_t>(size), '\0'));
    EXPECT_EQ(run_program({"verify", path}).code, good ? 0 : 1) << name << ' ' << size;
  }
}

TEST(Synth, WritesNothingForNoImages) {
  for (const char* format : {"tar", "tfrecord", "idx"}) {
    const TempFolder folder;
    ASSERT_EQ(run_program({"synth", folder / "a", "--images", "0", "--format", format}).code, 0);
    EXPECT_FALSE(contents(folder / "a").empty());
  }
}

TEST(Inspect, TellsTheFormatByItsBytes) {
  const struct {
    const char* format;
    const char* says;
    const char* spec;
  } kCases[] = {{"folder", "a folder of images", "image: bytes []"},
                {"tar", "tar", "image: bytes []"},
                {"tfrecord", "TFRecord", "record: bytes []"},
                {"cifar10", "CIFAR-10", "u8 [32,32,3]"},
                {"idx", "IDX", "u8 [28,28]"},
                {"csv", "CSV", "x0: bytes []"}};
  for (const auto& c : kCases) {
    const TempFolder folder;
    ASSERT_EQ(run_program(
                  {"synth", folder / "a", "--images", "30", "--format", c.format, "--classes", "3"})
                  .code,
              0);
    // Names say nothing.
    int n = 0;
    if (std::string(c.format) != "folder" && std::string(c.format) != "idx")
      for (const auto& [name, bytes] : contents(folder / "a"))
        std::filesystem::rename(folder / ("a/" + name), folder / ("a/x" + std::to_string(n++)));
    const Outcome outcome = run_program({"inspect", folder / "a", "--classes"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr(std::string(": ") + c.says), HasSubstr(c.spec),
                                   HasSubstr("30 good records")))
        << c.format;
    if (std::string(c.format) != "csv") {
      const json found = run_program({"inspect", folder / "a", "--classes", "--json", "-"}).json();
      EXPECT_EQ(found[0]["census"]["classes"], (json{{"0", 10}, {"1", 10}, {"2", 10}})) << c.format;
    }
  }
}

TEST(Inspect, SeesThroughCompression) {
  for (const char* compression : {"gzip", "zlib"}) {
    const TempFolder folder;
    ASSERT_EQ(run_program({"synth", folder / "a", "--images", "9", "--format", "tfrecord", "--size",
                           "24x24", "--compression", compression})
                  .code,
              0);
    const Outcome outcome = run_program({"inspect", folder / "a", "--classes"});
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("TFRecord"), HasSubstr("image/class/label: i64 0"),
                                   HasSubstr("9 good records")))
        << outcome.err;
  }
}

TEST(Verify, LooksAtShardsBesideImagesAndSaysWhatItPassedOver) {
  const TempFolder folder;
  const std::string mixed = folder / "mixed";
  ASSERT_EQ(run_program({"synth", mixed, "--images", "5", "--size", "24x24"}).code, 0);
  ASSERT_EQ(run_program({"synth", folder / "b", "--format", "tar", "--images", "9"}).code, 0);
  const std::string tar = contents(folder / "b").begin()->second;
  folder.write("mixed/notes.txt", "by Ann, in 2026\n");
  folder.write("mixed/model.pt", std::string(99, '\x01'));
  folder.write("mixed/a.tar", tar);
  const Outcome whole = run_program({"verify", mixed});
  EXPECT_EQ(whole.code, 0) << whole.out;
  EXPECT_THAT(whole.out, AllOf(HasSubstr("14 good, 0 bad records in 2 shards"),
                               HasSubstr("2 other files beside images, not looked at")));
  EXPECT_EQ(run_program({"verify", mixed, "--json", "-"}).json()["not_looked_at"], 2);
  folder.write("mixed/a.tar", tar.substr(0, tar.size() / 2));
  folder.write("mixed/c.npy", "");
  const Outcome cut = run_program({"verify", mixed});
  EXPECT_EQ(cut.code, 1);
  EXPECT_THAT(cut.out, AllOf(HasSubstr("a.tar"), HasSubstr("c.npy"), HasSubstr("in 3 shards")));
  EXPECT_THAT(
      run_program({"inspect", mixed}).out,
      AllOf(HasSubstr("a folder of images"), HasSubstr("a.tar: tar"), HasSubstr("2 other files")));
}

TEST(Inspect, ShowsTextWithoutItsControls) {
  const TempFolder folder;
  const std::string file = folder.write("a.csv", "a,b\nx,\x1b]0;title\x07\n");
  EXPECT_EQ(run_program({"inspect", file}).out.find('\x1b'), std::string::npos);
}

TEST(Inspect, WaitsForNoPipe) {
  const TempFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const char* command : {"inspect", "verify"}) {
    const Outcome outcome = run_program({command, pipe});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.out + outcome.err, HasSubstr("not a regular file"));
  }
}

TEST(Explain, PrintsGraphPlanAndMemory) {
  const TempFolder folder;
  ASSERT_EQ(run_program({"synth", folder / "a", "--images", "9", "--size", "24x24"}).code, 0);
  const Flags flags{"explain", "--images",    folder / "a", "--shuffle", "--resize",
                    "16x16",   "--normalize", "--batch",    "4"};
  const Outcome outcome = run_program(flags);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("shuffle"), HasSubstr("f32 [?,3,16,16]"), HasSubstr("memory")));
  Flags analysed = flags;
  analysed.insert(analysed.end(), {"--analyze", "--json", "-"});
  const json explained = run_program(analysed).json();
  EXPECT_EQ(explained["cardinality"], 3);
  EXPECT_EQ(explained["measured"]["elements"], 9);
  EXPECT_EQ(explained["spec"][0]["dtype"], "f32");
}

}  // namespace
}  // namespace penstock::test
