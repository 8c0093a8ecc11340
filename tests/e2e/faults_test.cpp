// Damaged data sets: what is found, what is skipped, and what is said.
// PENSTOCK_DAMAGED=10000 makes those with 1 % of bad records as large.
#include <cstdlib>
#include <set>
#include <sstream>

#include <gmock/gmock.h>

#include "tests/support/example.h"
#include "tests/support/program.h"
#include "tests/support/records.h"

namespace penstock::test {
namespace faults_test {

using testing::AllOf;
using testing::HasSubstr;
using Flags = std::vector<std::string>;
using nlohmann::json;

Flags operator+(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Lines of a manifest by fault.
std::vector<json> manifest(const std::string& folder) {
  std::vector<json> lines;
  std::istringstream text(read_file(folder + "/manifest.jsonl"));
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  return lines;
}

struct Damaged {
  const char* format;
  const char* faults;  // those that are always found
  Flags source;
};

class Faults : public testing::TestWithParam<int> {
 protected:
  /// 300 samples, some damaged.
  std::vector<json> make(const std::string& format, const std::string& faults,
                         const std::string& share = "5%") {
    Flags flags{"synth", folder_ / "data", "--images", "300",     "--format",
                format,  "--corrupt",      share,      "--fault", faults};
    if (format != "csv" && format != "cifar10") flags.insert(flags.end(), {"--size", "40x60"});
    const Outcome outcome = run_program(flags);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return manifest(folder_ / "data");
  }
  Flags source(const std::string& format) const {
    if (format == "folder") return {"--images", folder_ / "data"};
    if (format == "tar") return {"--tar", folder_ / "data/*.tar"};
    return {"--tfrecord", folder_ / "data/*.tfrecord", "--example",
            "image/encoded,image/class/label"};
  }

  TempFolder folder_;
};

constexpr const char* kCertain = "tenth,header,empty,dimensions,scans,tables";

TEST_F(Faults, AreSkippedAndCounted) {
  for (const char* format : {"folder", "tar", "tfrecord"}) {
    SCOPED_TRACE(format);
    const TempFolder other;
    std::filesystem::remove_all(folder_ / "data");
    const bool records = std::string(format) == "tfrecord";
    const auto damaged = make(format, std::string(kCertain) + (records ? ",crc" : ""));
    ASSERT_GT(damaged.size(), 4U);
    Flags flags = source(format);
    flags.insert(flags.end(), {"--resize", "32x32", "--batch", "16", "--on-error", "skip"});
    const json report = profile_json(flags);
    EXPECT_EQ(report["errors"]["count"], damaged.size());
    EXPECT_EQ(report["elements"], 300 - damaged.size());
    const std::string skipped = std::to_string(damaged.size()) + " bad ones skipped";
    EXPECT_THAT(run_program(Flags{"profile"} + flags).err, HasSubstr(skipped));
    EXPECT_EQ(run_program(Flags{"profile", "--quiet"} + flags).err, "");
    for (const auto& error : report["errors"]["first"]) {
      EXPECT_THAT(error["path"].get<std::string>(), HasSubstr(folder_ / "data"));
      EXPECT_GE(error["offset"], 0);
      EXPECT_GE(error["index"], 0);
      EXPECT_FALSE(error["cause"].get<std::string>().empty());
      EXPECT_FALSE(error["stage"].get<std::string>().empty());
    }
  }
}

/// Shard, offset and index of a record.
using Address = std::tuple<std::string, std::uint64_t, std::uint64_t>;

TEST_F(Faults, OfOnePercentAreThoseReportedAndBatchesStayFull) {
  const char* asked = std::getenv("PENSTOCK_DAMAGED");
  const std::uint64_t count = asked != nullptr ? std::stoull(asked) : 1500;
  const std::string data = folder_ / "data";
  for (const std::string format : {"tfrecord", "tar", "folder"}) {
    SCOPED_TRACE(format);
    std::filesystem::remove_all(data);
    Flags synth{
        "synth",     data,   "--images", std::to_string(count),
        "--format",  format, "--size",   "40x60",
        "--corrupt", "1%",   "--fault",  format == "tfrecord" ? "crc,header,tenth" : "header,tenth",
        "--classes", "1"};
    if (format != "folder") synth.insert(synth.end(), {"--shards", "4"});
    ASSERT_EQ(run_program(synth).code, 0);
    std::set<Address> damaged;
    for (const json& line : manifest(data))
      damaged.emplace(data + "/" + line["shard"].get<std::string>(), line["offset"], line["index"]);
    ASSERT_GT(damaged.size(), count / 200);

    const std::string quarantine = folder_ / (format + ".jsonl");
    const std::string digests = folder_ / (format + ".digests");
    Flags flags = source(format);
    flags.insert(flags.end(), {"--shuffle", "--resize", "32x32", "--flip", "--batch", "16",
                               "--seed", "5", "--threads", "3", "--on-error", "skip",
                               "--quarantine", quarantine, "--digests", digests});
    const json report = profile_json(flags);
    std::set<Address> reported;
    std::istringstream lines(read_file(quarantine));
    for (std::string line; std::getline(lines, line);) {
      const json bad = json::parse(line);
      EXPECT_TRUE(reported.emplace(bad["shard"], bad["offset"], bad["index"]).second) << line;
    }
    EXPECT_EQ(reported, damaged);
    EXPECT_EQ(report["errors"]["count"], damaged.size());
    EXPECT_EQ(report["elements"], count - damaged.size());
    EXPECT_EQ(report["batches"], (count - damaged.size() + 15) / 16);
    std::istringstream batches(read_file(digests));
    std::uint64_t left = count - damaged.size();
    for (std::string epoch, batch, rows, digest; batches >> epoch >> batch >> rows >> digest;) {
      EXPECT_EQ(std::stoull(rows), std::min<std::uint64_t>(left, 16)) << batch;
      left -= std::stoull(rows);
    }
    EXPECT_EQ(left, 0U);
    std::printf(
        "figure: damaged %s: %zu of %llu records bad, %zu reported, all where they lie; "
        "batches full\n",
        format.c_str(), damaged.size(), static_cast<unsigned long long>(count), reported.size());
  }
}

/// Also of runs that stop before the end of an epoch.
TEST_F(Faults, OfMoreThanHalf) {
  std::string records;
  for (int i = 0; i < 100; ++i)  // of CIFAR-10, most of which have a label that is none
    records += static_cast<char>(i % 5 == 4 ? 3 : 77) + noise(3072, i);
  const std::string data = folder_.write("data.bin", records);
  const std::vector<Flags> commands{
      {"profile", "--cifar10", data, "--batch", "2"},
      {"profile", "--cifar10", data, "--batch", "2", "--batches", "4"},
      {"profile", "--cifar10", data, "--batch", "2", "--batches", "4", "--device", "host:0"},
      {"train", "--model", "cifar10", "--data", data, "--batch", "2", "--max-steps", "4",
       "--epochs", "9", "--schedule", "constant:0.01"}};
  for (const Flags& command : commands) {
    const Outcome failed = run_program(command + Flags{"--on-error", "skip"});
    EXPECT_EQ(failed.code, 1) << command[0] << failed.err;
    EXPECT_THAT(failed.err, HasSubstr("more than half")) << command[0];
    const Outcome allowed =
        run_program(command + Flags{"--on-error", "skip", "--max-errors", "90%"});
    EXPECT_EQ(allowed.code, 0) << command[0] << allowed.err;
  }
}

TEST_F(Faults, StopTheRunByDefault) {
  make("folder", "header");
  const Outcome outcome =
      run_program({"profile", "--images", folder_ / "data", "--resize", "32x32", "--batch", "16"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, AllOf(testing::StartsWith("penstock: "), HasSubstr(folder_ / "data")));
}

TEST_F(Faults, EndTheRunWhenThereAreTooMany) {
  const auto damaged = make("folder", "header");
  const auto run = [&](const std::string& most) {
    return run_program({"profile", "--images", folder_ / "data", "--resize", "32x32", "--batch",
                        "16", "--on-error", "skip", "--max-errors", most})
        .code;
  };
  EXPECT_EQ(run(std::to_string(damaged.size())), 0);
  EXPECT_EQ(run(std::to_string(damaged.size() - 1)), 1);
  EXPECT_EQ(run("50%"), 0);
  EXPECT_EQ(run("0.5%"), 1);
}

TEST_F(Faults, AreAllFoundByVerify) {
  for (const char* format : {"folder", "tar", "tfrecord"}) {
    SCOPED_TRACE(format);
    std::filesystem::remove_all(folder_ / "data");
    const bool records = std::string(format) == "tfrecord";
    const auto damaged =
        make(format, std::string(kCertain) + ",truncate" + (records ? ",crc" : ""));
    std::set<std::pair<std::string, int>> expected;
    for (const json& line : damaged)
      expected.emplace(line["shard"],
                       std::string(format) == "folder" ? 0 : line["index"].get<int>());
    const Outcome outcome = run_program({"verify", folder_ / "data", "--json", "-"});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.err.find("epoch"), std::string::npos) << outcome.err;
    const json found = outcome.json();
    std::set<std::pair<std::string, int>> bad;
    for (const auto& error : found["errors"]) {
      const std::string path = error["path"];
      bad.emplace(path.substr((folder_ / "data").size() + 1),
                  std::string(format) == "folder" ? 0 : error["index"].get<int>());
    }
    EXPECT_EQ(bad, expected);
    EXPECT_EQ(found["bad"], damaged.size());
    EXPECT_EQ(found["good"], 300 - damaged.size());
  }
}

TEST_F(Faults, OfImagesAreFoundBehindABadRecord) {
  const std::string sample = example_of(feature("image/encoded", bytes_feature({"no image"})) +
                                        feature("image/class/label", int_feature({1})));
  std::string records = tfrecords_of({"damaged", "no example", sample, sample});
  records[12] = 'D';
  const Outcome outcome =
      run_program({"verify", folder_.write("a.tfrecord", records), "--json", "-"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.json()["bad"], 4) << outcome.out;
  EXPECT_EQ(outcome.json()["good"], 0);
}

TEST_F(Faults, OfRowsAreFound) {
  make("csv", "field");
  EXPECT_EQ(profile_json({"--csv", folder_ / "data/*.csv", "--columns", "label:i64,x0:f32",
                          "--batch", "8", "--on-error", "skip"})["errors"]["count"],
            manifest(folder_ / "data").size());
  std::filesystem::remove_all(folder_ / "data");
  make("cifar10", "label");
  EXPECT_EQ(profile_json({"--cifar10", folder_ / "data/*.bin", "--batch", "8", "--on-error",
                          "skip"})["errors"]["count"],
            manifest(folder_ / "data").size());
}

TEST_F(Faults, SoundDataSet) {
  for (const char* format : {"folder", "tar", "tfrecord", "cifar10", "idx", "csv"}) {
    std::filesystem::remove_all(folder_ / "data");
    ASSERT_EQ(run_program({"synth", folder_ / "data", "--images", "20", "--format", format}).code,
              0);
    const Outcome outcome = run_program({"verify", folder_ / "data"});
    EXPECT_EQ(outcome.code, 0) << format << outcome.out << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr(" 0 bad records")) << format;
  }
}

}  // namespace faults_test
}  // namespace penstock::test
