// The profiler from the outside, on data that is made up.
#include <chrono>
#include <fstream>
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
    for (const char* field : {"name", "items", "bytes", "busy_s", "wait_s", "waits_on"})
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
  EXPECT_GT(json::parse(read_file(trace))["traceEvents"].size(), 6U);
}

TEST_F(Profile, SimulatesAStep) {
  const json report = profile_json(source("folder") + Flags{"--decode", "--resize", "32x32",
                                                            "--batch", "10", "--step-ms", "60"});
  EXPECT_GT(report["wall_s"], 14 * 0.06);
}

TEST_F(Profile, TellsHumansTheSame) {
  const Outcome outcome = run_program(Flags{"profile"} + source("folder") + kTraining);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("450 elements in 30 batches, 3 epochs"), HasSubstr("seed 7"),
                    HasSubstr("digest "), HasSubstr("images[0]"), Not(HasSubstr("\x1b"))));
  EXPECT_EQ(outcome.err, "");
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

TEST(Towers, AreFedInEveryMode) {
  for (const char* mode : {"split", "per_tower", "sharded"}) {
    const Outcome outcome = run_program({"profile", "--range", "4096", "--batch", "32", "--device",
                                         "host:0,host:1", "--step-ms", "2", "--feed", mode,
                                         "--batches", "60", "--quiet", "--json", "-"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json report = outcome.json();
    EXPECT_EQ(report["outcome"], "batch limit");
    ASSERT_EQ(report["towers"].size(), 2U);
    for (const json& tower : report["towers"]) {
      EXPECT_THAT(tower["device"].get<std::string>(), StartsWith("host:"));
      EXPECT_EQ(tower["steps"], 30);
      EXPECT_EQ(tower["elements"], mode == std::string("split") ? 480 : 960);
      EXPECT_GE(tower["step_s"].get<double>(), 0.060);
      const double stall = tower["stall_s"];
      double causes = 0;
      for (const auto& [name, seconds] : tower["causes"].items()) causes += seconds.get<double>();
      EXPECT_NEAR(causes, stall, 0.01 * stall + 1e-6);
      const double sum = stall + tower["step_s"].get<double>() + tower["other_s"].get<double>();
      EXPECT_NEAR(sum, tower["wall_s"].get<double>(), 0.01 * sum);
      for (const char* field : {"stall_share", "copy_s", "copy_hidden_share"})
        EXPECT_TRUE(tower[field].is_number()) << field;
    }
  }
}

Outcome on_device(const std::string& device, const Flags& more = {}) {
  Flags flags{"profile",  "--range", "100000", "--batch", "16",
              "--device", device,    "--json", "-",       "--quiet"};
  flags.insert(flags.end(), more.begin(), more.end());
  return run_program(flags);
}

TEST(Towers, SayWhatTheyWereGivenAndWhatWasLost) {
  for (const char* mode : {"per_tower", "sharded"}) {
    const Outcome outcome =
        run_program({"profile", "--range", "300", "--batch", "16", "--device", "host:0,host:1",
                     "--feed", mode, "--epochs", "2", "--json", "-"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json report = outcome.json();
    EXPECT_EQ(report["guarantee"], "EXACT");
    EXPECT_EQ(report["elements"], 576);
    EXPECT_EQ(report["lost"], 24);
    EXPECT_EQ(report["wrapped"], 0);
    EXPECT_TRUE(report["failure"].is_null());
    EXPECT_THAT(outcome.err, HasSubstr("24 elements left at the end of epochs"));
    ASSERT_EQ(report["audit"].size(), mode == std::string("sharded") ? 0U : 2U);
    std::uint64_t epoch = 0;
    for (const json& audit : report["audit"]) {
      EXPECT_EQ(audit["epoch"], epoch++);
      EXPECT_EQ(audit["expected"], 300);
      EXPECT_EQ(audit["missing"], 0);
    }
  }
}

TEST(Towers, ALostDeviceIsExitCode70) {
  const Outcome outcome = on_device("host:0,host:1:fail_record=60:sticky");
  EXPECT_EQ(outcome.code, 70);
  EXPECT_EQ(outcome.json()["outcome"], "device lost");
  EXPECT_EQ(outcome.json()["failure"]["code"], "device_lost");
  EXPECT_THAT(outcome.json()["failure"]["cause"].get<std::string>(),
              HasSubstr("the device with it"));
  EXPECT_THAT(outcome.err, AllOf(StartsWith("penstock: host:1: "), HasSubstr("the device with it"),
                                 Not(HasSubstr("host:0"))));
  EXPECT_EQ(outcome.json()["towers"].size(), 2U);
}

TEST(Towers, ACopyThatNeverEndsIsExitCode75AndNamed) {
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = on_device("host:0:hang_copy=9,host:1", {"--watchdog", "3"});
  EXPECT_EQ(outcome.code, 75);
  EXPECT_EQ(outcome.json()["outcome"], "no progress");
  EXPECT_THAT(outcome.err,
              testing::ContainsRegex("penstock: the copy into slot [01] of host:0 on stream copy"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(Towers, LittleDeviceMemoryMeansFewerSlotsOrAnError) {
  const Outcome fewer = on_device("host:0:fail_allocation=2", {"--batches", "50"});
  EXPECT_EQ(fewer.code, 0) << fewer.err;
  EXPECT_EQ(fewer.json()["batches"], 50);
  EXPECT_THAT(fewer.err, AllOf(HasSubstr("1 of 2 slots"), HasSubstr("bytes of device memory")));
  const Outcome none = on_device("host:0:memory=10");
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, AllOf(HasSubstr("128 bytes of device memory wanted, 10 of 10 free")));
}

TEST(Towers, PinningThatIsRefusedIsSaidOnce) {
  const Outcome outcome = on_device("host:0:copies:fail_pinning=1", {"--batches", "50"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::size_t said = outcome.err.find("pinning memory was refused");
  ASSERT_NE(said, std::string::npos);
  EXPECT_EQ(outcome.err.find("pinning memory was refused", said + 1), std::string::npos);
}

TEST(Towers, WhatNoDeviceKnowsIsRefused) {
  const Outcome outcome = on_device("host:0:speed=9");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("bytes_per_s=N"), HasSubstr("not \"speed=9\"")));
}

}  // namespace
}  // namespace penstock::test
