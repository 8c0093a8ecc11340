// synth, inspect and explain from the outside.
#include <sys/stat.h>

#include <gmock/gmock.h>

#include "tests/support/program.h"

namespace penstock::test {
namespace shards_test {

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

Flags operator+(Flags flags, const Flags& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

/// The first file below a folder whose name ends so.
std::string first_file(const std::string& folder, std::string_view ending) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().string().ends_with(ending)) return entry.path().string();
  return "";
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

TEST(Verify, EmptyFiles) {
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
    const Outcome outcome = run_program({"verify", path});
    EXPECT_EQ(outcome.code, good ? 0 : 1) << name << ' ' << size;
    EXPECT_THAT(outcome.out,
                HasSubstr(good ? "0 bad records in 1 shard" : "1 bad record in 1 shard"));
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
  EXPECT_THAT(whole.out,
              AllOf(HasSubstr("14 good, 0 bad records in 2 shards"),
                    HasSubstr("2 other files beside images, not read: .pt (1), .txt (1)")));
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

TEST(Inspect, UnreadableFormats) {
  using namespace std::string_literals;
  const TempFolder folder;
  std::string hundred;
  for (char i = 0; i < 4; ++i) hundred += std::string{i, 47} + noise(3072);
  struct Case {
    std::string path;
    std::string name;
    std::string remedy;
  };
  const Case cases[] = {
      {folder.write("z.npz", "PK\3\4"s + std::string(22, '\0') + "\5\0\0\0x.npy"s + noise(200)),
       "an .npz archive", "numpy.load"},
      {folder.write("data_batch_1", "\x80\2}q\1(U\x0b"s + noise(4000)), "a Python pickle",
       "binary version"},
      {folder.write("hundred.bin", hundred), "CIFAR-100", "--record-bytes 3074"},
      {folder.write("x.parquet", "PAR1\x15\4"s + noise(900)), "a Parquet file", "read_parquet"},
      {folder.write("x.csv", "\xfe\xff\0a\0,\0b\0\n"s), "text in UTF-16", "iconv"},
      {folder.write("mds/shard.00000.mds", "\1\0\0\0\x0e\0\0\0\x12\0\0\0{\"abcd"s), "an MDS shard",
       "tar shards"},
  };
  folder.write("mds/index.json", "{\"shards\": [], \"version\": 2}");
  for (const Case& one : cases) {
    const std::string parent = std::filesystem::path(one.path).parent_path().string();
    std::vector<Flags> commands{
        {"inspect", one.path},
        {"verify", one.path},
        {"profile", one.path, "--batch", "1"},
        {"profile", "--npy", one.path, "--batch", "1"},
        {"profile", "--cifar10", one.path, "--batch", "1"},
        {"profile", "--lines", one.path, "--batch", "1"},
        {"train", "--model", "cifar10", "--data", one.path, "--batch", "1"}};
    if (parent.ends_with("mds"))
      commands.insert(commands.end(), {{"inspect", parent},
                                       {"profile", parent, "--batch", "1"},
                                       {"profile", "--images", parent, "--batch", "1"},
                                       {"pack", "--images", parent, "--jpeg", "indexed", "--out",
                                        folder / "x.pnr"}});
    for (const Flags& command : commands) {
      const Outcome outcome = run_program(command);
      EXPECT_NE(outcome.code, 0) << command[0];
      EXPECT_THAT(outcome.out + outcome.err, AllOf(HasSubstr(one.name), HasSubstr(one.remedy)))
          << command[0] << ' ' << command[1];
    }
  }
  const std::string webp = folder.write("x.webp", "RIFF\x24\0\0\0WEBPVP8 "s + noise(36));
  const Outcome decoded = run_program({"profile", "--images", webp, "--decode", "--batch", "1"});
  EXPECT_EQ(decoded.code, 1);
  EXPECT_THAT(decoded.err, HasSubstr("neither a JPEG nor a PNG, but a WebP image: convert it"));
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

TEST(Explain, IsShortUnlessItIsAsked) {
  const Flags flags{"explain", "--range", "9", "--shuffle", "--batch", "4"};
  const Outcome brief = run_program(flags);
  EXPECT_EQ(brief.code, 0) << brief.err;
  EXPECT_EQ(std::ranges::count(brief.out, '\n'), 5) << brief.out;  // three stages, and two lines
  const Outcome verbose = run_program(flags + Flags{"--verbose"});
  EXPECT_THAT(verbose.out, AllOf(HasSubstr("resumes by position"), HasSubstr("JPEGs: ")));
  const Outcome dot = run_program(flags + Flags{"--dot"});
  EXPECT_THAT(dot.out, AllOf(HasSubstr("digraph pipeline {"), HasSubstr("s1 -> s2;")));
}

TEST(Explain, SaysWhatEachOfSeveralProcessesMakes) {
  const Flags flags{"explain", "--range", "9", "--shuffle", "--batch", "4"};
  EXPECT_THAT(run_program(flags + Flags{"--verbose"}).out,
              HasSubstr("several processes: each makes the batches of its own towers\n"));
  EXPECT_TRUE(run_program(flags + Flags{"--json", "-"}).json()["made_by_every_process"].is_null());
  const Flags skipping = flags + Flags{"--on-error", "skip"};
  EXPECT_THAT(run_program(skipping + Flags{"--verbose"}).out,
              HasSubstr("so N processes do N times the work, because bad elements are skipped"));
  const json explained = run_program(skipping + Flags{"--json", "-"}).json();
  EXPECT_THAT(explained["made_by_every_process"].get<std::string>(), HasSubstr("skipped"));
}

TEST(Explain, DrawsAGraphThatGraphvizTakes) {
  if (std::system("dot -V > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "NOT CHECKED: Graphviz is not installed (tools/setup.sh --checks)";
  const TempFolder folder;
  // A name that Graphviz would read as its own if it were not quoted.
  const std::string lines = folder / "digraph \"a\\b\" {\n.txt";
  std::ofstream(lines) << "one\ntwo\n";
  for (const Flags& source : {Flags{"--range", "9", "--shuffle"}, Flags{"--lines", lines}}) {
    const Outcome drawn = run_program(Flags{"explain"} + source + Flags{"--batch", "4", "--dot"});
    ASSERT_EQ(drawn.code, 0) << drawn.err;
    std::ofstream(folder / "graph") << drawn.out;
    const std::string command =
        "dot -Tsvg < " + (folder / "graph") + " > " + (folder / "svg") + " 2> " + (folder / "said");
    EXPECT_EQ(std::system(command.c_str()), 0) << read_file(folder / "said") << drawn.out;
    EXPECT_EQ(read_file(folder / "said"), "") << drawn.out;
    EXPECT_THAT(read_file(folder / "svg"), AllOf(HasSubstr("<svg"), HasSubstr("batch[")));
  }
}

// A path alone: what it holds says how it is read.
TEST(FindSource, OfEveryFormat) {
  const TempFolder folder;
  const auto synth = [&](const std::string& name, const Flags& more) {
    const Flags flags = Flags{"synth", folder / name, "--images", "6"} + more;
    const Outcome outcome = run_program(flags);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  };
  const struct {
    const char* name;
    Flags more;
    const char* flag;
  } kCases[] = {{"photos", {}, "images"},
                {"tars", {"--format", "tar"}, "tar"},
                {"tfrecords", {"--format", "tfrecord"}, "tfrecord"},
                {"cifar", {"--format", "cifar10"}, "cifar10"},
                {"csvs", {"--format", "csv"}, "csv"}};
  for (const auto& c : kCases) {
    synth(c.name, c.more);
    const Outcome toml = run_program({"explain", "--toml", folder / c.name});
    EXPECT_EQ(toml.code, 0) << c.name << toml.err;
    EXPECT_THAT(toml.out, HasSubstr(std::string("kind = \"") + c.flag + "\"")) << c.name;
    const Outcome run = run_program({"profile", folder / c.name, "--batch", "2", "--json", "-"});
    EXPECT_EQ(run.code, 0) << c.name << run.err;
    EXPECT_EQ(run.json()["elements"], 6) << c.name;
  }
  const Outcome mixed = run_program({"profile", folder / "tars", folder / "csvs"});
  EXPECT_EQ(mixed.code, 2);
  EXPECT_THAT(mixed.err, AllOf(HasSubstr("no source reads all of these"), HasSubstr("(--tar)"),
                               HasSubstr("(--csv)")));
  folder.write("noise.dat", std::string("\1\2\3\4\0\xff", 6));
  const Outcome unknown = run_program({"profile", folder / "noise.dat"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("the format of "), HasSubstr("noise.dat is not known"),
                                 HasSubstr("--csv, --lines, --records")));
}

// What a file holds decides before the format that it was given as.
TEST(FindSource, NamesTheFlagThatReadsTheFiles) {
  const TempFolder folder;
  ASSERT_EQ(run_program({"synth", folder / "p", "--images", "4", "--size", "24x24"}).code, 0);
  ASSERT_EQ(
      run_program({"synth", folder / "t", "--images", "4", "--size", "24x24", "--format", "tar"})
          .code,
      0);
  const std::string photo = first_file(folder / "p", ".jpg");
  const std::string tar = first_file(folder / "t", ".tar");
  for (const char* name : {"t2/a.tar", "t2/b.tar"}) folder.write(name, read_file(tar));
  const struct {
    Flags source;
    const char* says;
  } kCases[] = {
      {{"--tar", photo}, "these are JPEGs: --images (--tar "},
      {{"--tfrecord", photo}, "these are JPEGs: --images"},
      {{"--csv", photo}, "these are JPEGs: --images"},
      {{"--cifar10", photo}, "these are JPEGs: --images"},
      {{"--records", photo}, "these are JPEGs: --images"},
      {{"--npy", tar}, "these are tar archives: --tar"},
      {{"--images", tar}, "these are tar archives: --tar"},
      {{"--tar", folder / "p"}, "this is a folder of images: --images (--tar "},
      {{"--csv", folder / "t"}, "this is a folder that holds 1 tar (--tar) (--csv "},
      {{"--csv", folder / "t2"}, "this is a folder that holds 2 tar archives (--tar) (--csv "},
      {{"--tar", folder / "t"}, "1 tar (--tar): give a pattern in quotes, such as '"},
      {{folder / "p", tar},
       "no source reads all of these: a folder of images (--images), 1 tar (--tar); name the "
       "source"}};
  for (const auto& c : kCases) {
    const Outcome outcome = run_program(Flags{"explain"} + c.source);
    EXPECT_EQ(outcome.code, 2) << c.says;
    EXPECT_THAT(outcome.err, HasSubstr(c.says));
  }
  EXPECT_EQ(run_program({"explain", "--records", photo, "--record-bytes", "1"}).code, 0);
}

}  // namespace shards_test
}  // namespace penstock::test
