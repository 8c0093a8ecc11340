// The profiler from the outside, on data that is made up.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>

#include "tests/support/program.h"
#include "tests/support/wait_until.h"

namespace penstock::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
using Flags = std::vector<std::string>;
using nlohmann::json;

Flags operator+(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Data sets of 150 images in every format that holds JPEGs, made once.
class Profile : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    for (const char* format : {"folder", "tar", "tfrecord"}) {
      const Flags flags{"synth", at(format), "--format",      format,      "--images",
                        "150",   "--size",   "40x50..90x120", "--classes", "4"};
      const Flags sharded{"--shards", "3"};
      ASSERT_EQ(run_program(std::string(format) == "folder" ? flags : flags + sharded).code, 0);
    }
  }
  static void TearDownTestSuite() { delete folder_; }
  static std::string at(const std::string& name) { return *folder_ / name; }

  static Flags source(const std::string& format) {
    if (format == "folder") return {"--images", at("folder")};
    if (format == "tar") return {"--tar", at("tar/*.tar")};
    return {"--tfrecord", at("tfrecord/*.tfrecord"), "--example",
            "image/encoded,image/class/label"};
  }

  static const Flags kTraining;
  static TempFolder* folder_;
};

const Flags Profile::kTraining{"--shuffle",   "--random-resized-crop",
                               "32",          "--flip",
                               "--normalize", "--batch",
                               "16",          "--epochs",
                               "3",           "--seed",
                               "7",           "--digest"};
TempFolder* Profile::folder_ = nullptr;

TEST_F(Profile, GivesTheSameBytesForAnyThreadsAndMemory) {
  for (const char* format : {"folder", "tar", "tfrecord"}) {
    SCOPED_TRACE(format);
    const json first = profile_json(source(format) + kTraining + Flags{"--threads", "1"});
    ASSERT_TRUE(first["digest"].is_string());
    EXPECT_EQ(first["elements"], 450);
    EXPECT_EQ(first["batches"], 30);
    const Flags variants[] = {{"--threads", "2"},   {"--threads", "8"},   {"--memory", "2MiB"},
                              {"--memory", "2GiB"}, {"--io", "mmap"},     {"--slots", "1"},
                              {"--io", "io_uring"}, {"--io-threads", "1"}};
    for (const Flags& variant : variants)
      EXPECT_EQ(profile_json(source(format) + kTraining + variant)["digest"], first["digest"])
          << variant[0] << " " << variant[1];
    EXPECT_NE(profile_json(source(format) + kTraining + Flags{"--seed", "8"})["digest"],
              first["digest"]);
  }
}

TEST_F(Profile, DecodesEveryFormat) {
  for (const char* format : {"folder", "tar", "tfrecord"}) {
    const json report =
        profile_json(source(format) + Flags{"--decode", "--resize", "24x24", "--batch", "150"});
    EXPECT_EQ(report["elements"], 150);
    const auto& batch = report["stages"].back();
    EXPECT_THAT(batch["name"].get<std::string>(), StartsWith("batch"));
    EXPECT_GE(batch["bytes"].get<std::uint64_t>(), 150U * (24 * 24 * 3 + 8)) << format;
  }
}

TEST_F(Profile, WritesALineForEachBatch) {
  const std::string file = at("digests");
  const json report = profile_json(source("tar") + kTraining + Flags{"--digests", file});
  std::istringstream lines(read_file(file));
  std::string line;
  int count = 0;
  int elements = 0;
  for (; std::getline(lines, line); ++count) {
    std::istringstream words(line);
    int epoch = -1, batch = -1, size = -1;
    std::string digest, rest;
    words >> epoch >> batch >> size >> digest;
    EXPECT_EQ(epoch, count / 10) << line;
    EXPECT_EQ(batch, count % 10) << line;
    EXPECT_EQ(size, batch == 9 ? 6 : 16) << line;
    EXPECT_THAT(digest, testing::MatchesRegex("[0-9a-f]{16}")) << line;
    EXPECT_FALSE(words >> rest) << line;
    elements += size;
  }
  EXPECT_EQ(count, report["batches"]);
  EXPECT_EQ(elements, report["elements"]);
}

TEST_F(Profile, ReportsWhatItMeasured) {
  const json report = profile_json(source("folder") + kTraining);
  EXPECT_GT(report["elements_per_second"], 0);
  EXPECT_GT(report["cpu_seconds_per_1000"], 0);
  EXPECT_GT(report["first_batch_ms"], 0);
  EXPECT_EQ(report["errors"]["count"], 0);
  EXPECT_THAT(report["errors"]["first"], IsEmpty());
  ASSERT_FALSE(report["stages"].empty());
  for (const auto& stage : report["stages"])
    for (const char* field :
         {"name", "items", "bytes", "padding_bytes", "busy_s", "wait_s", "waits_on"})
      EXPECT_TRUE(stage.contains(field)) << field;
  EXPECT_LE(report["memory"]["peak_bytes"], report["memory"]["budget_bytes"]);
  EXPECT_GT(report["memory"]["rss_peak_bytes"], 0);
  EXPECT_GT(report["threads"], 0);
  EXPECT_THAT(report["jpeg_backend"]["library"].get<std::string>(), HasSubstr("jpeg"));
  const json& decoding = report["decoding"];
  EXPECT_EQ(decoding["jpeg"], report["elements"]);
  EXPECT_EQ(decoding["png"], 0);
  EXPECT_GT(decoding["jpeg_rows"], 0);
  EXPECT_GT(decoding["jpeg_rows_spared"], 0);
  EXPECT_THAT(report["verdict"]["text"].get<std::string>(), Not(IsEmpty()));
  EXPECT_TRUE(profile_json(source("folder") + Flags{"--take", "3"})["digest"].is_null());
}

TEST_F(Profile, CountsWhoDecodesJpegs) {
  const auto backend = [&](const char* name) {
    return profile_json(source("folder") + Flags{"--random-resized-crop", "24", "--seed", "1",
                                                 "--jpeg-backend", name, "--digest"});
  };
  const json own = backend("own");
  EXPECT_EQ(own["jpeg_backend"]["own"], own["elements"]);
  EXPECT_TRUE(own["jpeg_backend"]["fallback"].empty());
  const json library = backend("libjpeg-turbo");
  EXPECT_EQ(library["jpeg_backend"]["own"], 0);
  EXPECT_EQ(library["digest"], own["digest"]);
}

TEST_F(Profile, UsesNoBetterSimdThanItIsTold) {
  const Flags flags = source("folder") + Flags{"--random-resized-crop", "24", "--seed", "1"};
  const json best = profile_json(flags + Flags{"--digest"});
  const Outcome refused = run_program(Flags{"profile"} + flags + Flags{"--simd", "mmx"});
  EXPECT_NE(refused.code, 0);
  const std::string before = "no SIMD target MMX, but ";
  ASSERT_THAT(refused.err, HasSubstr(before));
  std::string names = refused.err.substr(refused.err.find(before) + before.size());
  std::replace(names.begin(), names.end(), ',', ' ');
  std::istringstream targets(names);
  int count = 0;
  for (std::string target; targets >> target; ++count) {
    const json report = profile_json(flags + Flags{"--digest", "--simd", target});
    EXPECT_EQ(report["simd"], target);
    EXPECT_EQ(report["digest"], best["digest"]) << target;
    if (count == 0) {
      EXPECT_EQ(best["simd"], target);
    }
  }
  EXPECT_GT(count, 1);
}

TEST_F(Profile, CountsHowImagesAreDecoded) {
  ASSERT_EQ(run_program({"synth", at("large"), "--images", "5", "--size", "160x160"}).code, 0);
  const auto decoding = [&](const char* size) {
    return profile_json({"--images", at("large"), "--resize", size, "--batch", "2"})["decoding"];
  };
  const json full = decoding("160x160");
  EXPECT_EQ(full["jpeg_scales"], (json{{"1", 5}, {"1/2", 0}, {"1/4", 0}, {"1/8", 0}}));
  EXPECT_EQ(full["jpeg_rows"], 5 * 160);
  EXPECT_EQ(full["jpeg_rows_spared"], 0);
  const json eighth = decoding("16x16");
  EXPECT_EQ(eighth["jpeg_scales"], (json{{"1", 0}, {"1/2", 0}, {"1/4", 0}, {"1/8", 5}}));
  EXPECT_EQ(eighth["jpeg_rows"], 5 * 20);
}

TEST_F(Profile, CallsIdentityForEveryElement) {
  const json report = profile_json({"--range", "100000", "--identity", "--batch", "1024"});
  EXPECT_EQ(report["elements"], 100000);
  EXPECT_EQ(report["batches"], 98);
  bool seen = false;
  for (const auto& stage : report["stages"]) {
    if (stage["name"].get<std::string>().find("identity") == std::string::npos) continue;
    EXPECT_EQ(stage["items"], 100000);
    seen = true;
  }
  EXPECT_TRUE(seen);
}

TEST_F(Profile, StopsAfterSoManyBatches) {
  const json report =
      profile_json({"--range", "1000", "--repeat", "--batch", "10", "--batches", "7"});
  EXPECT_EQ(report["batches"], 7);
  EXPECT_EQ(report["outcome"], "batch limit");
}

TEST_F(Profile, AppliesStagesInOrder) {
  EXPECT_EQ(profile_json({"--range", "10", "--take", "4", "--repeat", "3"})["elements"], 12);
  EXPECT_EQ(profile_json({"--range", "10", "--repeat", "3", "--take", "4"})["elements"], 4);
  EXPECT_EQ(profile_json({"--range", "10", "--shard", "3,0"})["elements"], 4);
  EXPECT_EQ(profile_json({"--range", "10", "--batch", "4", "--drop-remainder"})["elements"], 8);
  EXPECT_EQ(profile_json({"--range", "10", "--batch", "4", "--skip", "1"})["elements"], 6);
}

TEST_F(Profile, ReadsTheSamePipelineFromToml) {
  const Flags flags = source("tar") + Flags{"--shuffle", "--resize", "40", "--center-crop", "32",
                                            "--flip",    "--batch",  "16", "--seed",        "3"};
  const Outcome toml = run_program(Flags{"explain", "--toml"} + flags);
  ASSERT_EQ(toml.code, 0) << toml.err;
  const std::string file = folder_->write("pipeline.toml", toml.out);
  const json a = profile_json(flags + Flags{"--digest"});
  const json b = profile_json({"--pipeline", file, "--digest"});
  EXPECT_EQ(a["digest"], b["digest"]);
  EXPECT_NE(profile_json({"--pipeline", file, "--digest", "--seed", "4"})["digest"], a["digest"]);
}

TEST_F(Profile, DrawsAndPrintsASeed) {
  const json a = profile_json({"--range", "1000", "--shuffle", "--batch", "10", "--digest"});
  const json b = profile_json({"--range", "1000", "--shuffle", "--batch", "10", "--digest"});
  EXPECT_NE(a["seed"], b["seed"]);
  EXPECT_NE(a["digest"], b["digest"]);
  const std::string seed = std::to_string(a["seed"].get<std::uint64_t>());
  EXPECT_EQ(profile_json({"--range", "1000", "--shuffle", "--batch", "10", "--digest", "--seed",
                          seed})["digest"],
            a["digest"]);
}

TEST_F(Profile, WritesTheImagesOfTheTrainer) {
  const std::string folder = at("dump");
  profile_json(source("folder") + kTraining + Flags{"--dump", "20", folder});
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    ++count;
    const std::string png = read_file(entry.path());
    ASSERT_THAT(png, StartsWith("\x89PNG"));
    EXPECT_EQ(png.substr(16, 8), std::string("\0\0\0\x20\0\0\0\x20", 8)) << "32 x 32";
    EXPECT_THAT(entry.path().filename().string(), HasSubstr("-label-"));
  }
  EXPECT_EQ(count, 20U);
}

TEST_F(Profile, WritesAPageAndATrace) {
  const std::string html = at("report.html");
  const std::string trace = at("trace.json");
  profile_json(
      {"--range", "1000", "--batch", "10", "--step-ms", "5", "--html", html, "--trace", trace});
  EXPECT_THAT(read_file(html), AllOf(HasSubstr("range 1000"), HasSubstr("<polyline")));
  std::map<std::string, int> kinds;  // of spans, and of what is counted
  const json events = json::parse(read_file(trace))["traceEvents"];
  for (const json& event : events) ++kinds[event.value("cat", event["name"].get<std::string>())];
  for (const char* kind : {"group", "read", "threads busy", "memory"})
    EXPECT_GT(kinds[kind], 0) << kind;
}

TEST_F(Profile, TracesTowers) {
  const std::string trace = at("trace.json");
  profile_json(source("folder") + Flags{"--decode", "--resize", "32x32", "--batch", "10",
                                        "--device", "host:0,host:1", "--step-ms", "2", "--trace",
                                        trace});
  std::map<std::string, int> kinds;
  const json events = json::parse(read_file(trace))["traceEvents"];
  for (const json& event : events)
    if (event["ph"] == "X") ++kinds[event["cat"]];
  for (const char* kind : {"group", "read", "op", "copy", "step"})
    EXPECT_GT(kinds[kind], 0) << kind;
  EXPECT_EQ(kinds["step"], kinds["copy"]);
}

TEST_F(Profile, SimulatesAStep) {
  const json report = profile_json(source("folder") + Flags{"--decode", "--resize", "32x32",
                                                            "--batch", "10", "--step-ms", "60"});
  EXPECT_GT(report["wall_s"], 14 * 0.06);
}

TEST_F(Profile, TellsHumansTheSame) {
  const Outcome outcome = run_program(Flags{"profile"} + source("folder") + kTraining);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, Not(StartsWith("450 elements"))) << "the verdict comes first";
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("450 elements in 30 batches, 3 epochs"), HasSubstr("seed 7"),
                    HasSubstr("digest "), HasSubstr("images[0]"), Not(HasSubstr("\x1b"))));
  EXPECT_EQ(outcome.err, "");
}

TEST_F(Profile, FiguresWithoutAdviceForShortRuns) {
  const Outcome outcome = run_program({"profile", "--range", "99", "--batch", "10"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("too short to tell what limits it"), HasSubstr("99 elements in 10"),
                    Not(HasSubstr("would")), Not(HasSubstr("elements/s instead"))));
  const json report = profile_json({"--range", "99"});
  EXPECT_TRUE(report["verdict"]["cause"].is_null());
  EXPECT_TRUE(report["verdict"]["prizes"].empty());
}

TEST_F(Profile, NotesImagesThatWereNotDecoded) {
  for (const char* format : {"folder", "tar"}) {
    EXPECT_THAT(run_program({"profile", at(format)}).out, HasSubstr("measured: --decode"))
        << format;
    EXPECT_THAT(run_program({"profile", at(format), "--decode"}).out,
                Not(HasSubstr("measured: --decode")))
        << format;
  }
  EXPECT_THAT(run_program({"profile", "--range", "200"}).out, Not(HasSubstr("measured: --decode")));
}

TEST_F(Profile, StopsWhenInterrupted) {
  for (const auto& [number, code] : {std::pair{SIGINT, 130}, std::pair{SIGTERM, 143}}) {
    const TempFolder folder;
    const std::string digests = folder / "digests";
    Program program({"profile", "--range", "1000", "--repeat", "--batch", "10", "--step-ms",
                     "100000", "--digests", digests});
    ASSERT_TRUE(wait_until([&] { return !read_file(digests).empty(); }));
    program.signal(number);
    const Outcome outcome = program.wait(60);  // less than a step
    EXPECT_EQ(outcome.code, code);
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("interrupted"), HasSubstr("elements/s")));
  }
}

TEST_F(Profile, StopsAlsoWhileItScans) {
  const std::string file = folder_->write("zeros.txt", "");
  std::filesystem::resize_file(file, 1ULL << 36);  // takes a minute
  for (const auto& [number, code] : {std::pair{SIGINT, 130}, std::pair{SIGTERM, 143}}) {
    Program program({"profile", "--lines", file, "--index-folder", "-"});
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const auto asked = std::chrono::steady_clock::now();
    program.signal(number);
    EXPECT_EQ(program.wait().code, code);
    EXPECT_LT(std::chrono::steady_clock::now() - asked, std::chrono::seconds(20));
  }
}

TEST_F(Profile, GivesUpWhenNothingMoves) {
  const auto start = std::chrono::steady_clock::now();
  const json report = profile_json(
      {"--synthetic", "count=10,bytes=100,read_us=300000000", "--batch", "4", "--watchdog", "0.5"},
      75);
  EXPECT_EQ(report["outcome"], "no progress");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60))
      << "it must not wait for the read that hangs";
}

}  // namespace
}  // namespace penstock::test
