// Quarantine, replay, retry and check-determinism from the outside.
#include <sstream>

#include <gmock/gmock.h>

#include "tests/support/program.h"

namespace penstock::test {
namespace replay_test {

using testing::HasSubstr;
using Flags = std::vector<std::string>;
using nlohmann::json;

Flags operator+(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class Replay : public testing::Test {
 protected:
  Flags source(const std::string& format) {
    const Outcome made =
        run_program({"synth", folder_ / format, "--images", "120", "--format", format, "--corrupt",
                     "5%", "--fault", "header,empty", "--size", "40x60"});
    EXPECT_EQ(made.code, 0) << made.err;
    if (format == "tar") return {"--tar", folder_ / "tar/*.tar"};
    return {"--images", folder_ / "folder"};
  }
  TempFolder folder_;
};

TEST_F(Replay, MakesQuarantinedRecordsAgain) {
  for (const char* format : {"folder", "tar"}) {
    const Flags pipeline = source(format) + Flags{"--random-resized-crop", "16"};
    const std::string file = folder_ / (std::string(format) + ".jsonl");
    const json report =
        profile_json(pipeline + Flags{"--shuffle", "--batch", "8", "--on-error", "skip",
                                      "--quarantine", file, "--epochs", "2"});
    std::istringstream lines(read_file(file));
    std::uint64_t count = 0;
    for (std::string line; std::getline(lines, line);) {
      ++count;
      const json bad = json::parse(line);
      EXPECT_GE(bad["length"], 0);
      const std::string raw = folder_ / "raw";
      const Outcome again = run_program(
          Flags{"replay"} + pipeline +
          Flags{"--record", file + "," + std::to_string(count), "--raw", raw, "--json", "-"});
      EXPECT_EQ(again.code, 1) << again.err;
      EXPECT_EQ(again.json()["now"], bad["cause"]) << line;
      if (std::string(format) == "folder") {
        EXPECT_EQ(read_file(raw), read_file(bad["shard"]));
      }
    }
    EXPECT_EQ(2 * count, report["errors"]["count"]);
    EXPECT_GT(count, 2U);
    // Once the record is repaired, the replay says so.
    if (std::string(format) == "folder") {
      const json bad = json::parse(read_file(file).substr(0, read_file(file).find('\n')));
      run_program({"synth", folder_ / "good", "--images", "1", "--size", "40x60"});
      for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "good"))
        if (entry.path().extension() == ".jpg")
          std::filesystem::copy_file(entry.path(), bad["shard"].get<std::string>(),
                                     std::filesystem::copy_options::overwrite_existing);
      const Outcome good = run_program(Flags{"replay"} + pipeline + Flags{"--record", file + ",1"});
      EXPECT_EQ(good.code, 0) << good.err;
      EXPECT_THAT(good.out, HasSubstr("good now: image: "));
    }
  }
  EXPECT_EQ(run_program({"replay", "--range", "3", "--record", folder_ / "no,1"}).code, 1);
  folder_.write("odd.jsonl", "{}\n[1]\n");
  for (const char* line : {",1", ",2", ",3", ",0", ",x", ""})
    EXPECT_EQ(
        run_program({"replay", "--range", "3", "--record", folder_ / "odd.jsonl" + line}).code, 2)
        << line;
}

TEST_F(Replay, FindsFilesWhoseNamesAreNotUtf8) {
  const std::string name = "images/cat\xff/\xc3\x28.jpg";
  const std::string path = folder_.write(name, "no JPEG at all");
  const Flags pipeline{"--images", folder_ / "images", "--resize", "8x8"};
  const std::string file = folder_ / "bad.jsonl";
  profile_json(pipeline + Flags{"--batch", "1", "--on-error", "skip", "--quarantine", file});
  const json line = json::parse(read_file(file));
  EXPECT_THAT(line["shard"].get<std::string>(), HasSubstr("\xef\xbf\xbd"));
  const Outcome again = run_program(Flags{"replay"} + pipeline +
                                    Flags{"--record", file + ",1", "--raw", folder_ / "raw"});
  EXPECT_EQ(again.code, 1) << again.err;
  EXPECT_EQ(read_file(folder_ / "raw"), "no JPEG at all") << again.err;
  json wrong = line;
  for (const char* hex : {"7", "7g", "+1", "zz", "7071727"}) {
    wrong["shard_hex"] = hex;
    folder_.write("wrong.jsonl", wrong.dump());
    const Outcome refused =
        run_program(Flags{"replay"} + pipeline + Flags{"--record", folder_ / "wrong.jsonl,1"});
    EXPECT_EQ(refused.code, 2) << hex;
    EXPECT_THAT(refused.err, HasSubstr("shard_hex")) << hex;
  }
}

TEST_F(Replay, MakesAnyBatchAgain) {
  const std::string digests = folder_ / "digests";
  for (const Flags& graph : std::vector<Flags>{
           {"--range", "100", "--shuffle", "--identity", "--batch", "8"},
           {"--range", "100", "--shuffle", "--shard", "3,1", "--batch", "8", "--drop-remainder"},
           {"--range", "100", "--shuffle", "10", "--repeat", "2", "--batch", "7", "--prefetch"},
           {"--range", "50", "--batch", "4", "--unbatch", "--batch", "9"}}) {
    const Flags run = graph + Flags{"--seed", "5"};
    const json report = profile_json(run + Flags{"--epochs", "2", "--digests", digests});
    std::istringstream lines(read_file(digests));
    std::uint64_t epoch = 0, batch = 0;
    for (std::string size, digest; lines >> epoch >> batch >> size >> digest;) {
      if (batch % 5 == 1) continue;
      const Outcome again = run_program(
          Flags{"replay"} + run +
          Flags{"--at", std::to_string(epoch) + "," + std::to_string(batch), "--digests", digests});
      EXPECT_EQ(again.code, 0) << again.err;
      EXPECT_THAT(again.out, HasSubstr("digest " + digest));
    }
    const Outcome beyond = run_program(Flags{"replay"} + run + Flags{"--at", "0,1000"});
    EXPECT_EQ(beyond.code, 1) << beyond.err;
    EXPECT_THAT(beyond.err, HasSubstr("but no number 1000"));
  }
  EXPECT_EQ(run_program({"replay", "--range", "9", "--batch", "2", "--at", "0,1"}).code, 2);
  folder_.write("digests", "0 0 2 0123456789abcdef\n");
  const Outcome other = run_program({"replay", "--range", "9", "--batch", "2", "--seed", "1",
                                     "--at", "0,0", "--digests", digests});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("the run had 0123456789abcdef, this is"));
}

TEST_F(Replay, AuditsEveryEpoch) {
  const json report = profile_json({"--range", "20", "--shuffle", "--shard", "3,0", "--batch", "4",
                                    "--pad-batches", "--epochs", "3", "--digest"});
  EXPECT_EQ(report["guarantee"], "EXACT");
  ASSERT_EQ(report["audit"].size(), 3U);
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    const json& audit = report["audit"][epoch];
    EXPECT_EQ(audit["epoch"], epoch);
    EXPECT_EQ(audit["elements"], 7);
    EXPECT_EQ(audit["batches"], 2);
    EXPECT_EQ(audit["padded_rows"], 1);
    EXPECT_EQ(audit["skipped"], 0);
    EXPECT_EQ(audit["digest"].get<std::string>().size(), 16U);
  }
}

TEST_F(Replay, ChecksDeterminism) {
  const Outcome same = run_program({"check-determinism", "--range", "2000", "--shuffle", "100",
                                    "--identity", "--batch", "16", "--epochs", "2", "--json", "-"});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_EQ(same.json()["deterministic"], true);
  EXPECT_EQ(same.json()["batches"], 250);
  EXPECT_EQ(same.json()["errors"], 0);
}

TEST_F(Replay, TellsTheErrorsOfADeterministicRun) {
  for (const char* on_error : {"fail", "skip"}) {
    const Flags flags{"check-determinism", "--synthetic", "count=200,faults=0.1", "--on-error",
                      on_error};
    const json told = run_program(flags + Flags{"--json", "-"}).json();
    EXPECT_GT(told["errors"], 5) << on_error;
    EXPECT_EQ(told["errors"].get<int>() + told["elements"].get<int>(), 200) << on_error;
    EXPECT_THAT(run_program(flags).out, HasSubstr(" errors of bad elements")) << on_error;
  }
}

}  // namespace replay_test
}  // namespace penstock::test
