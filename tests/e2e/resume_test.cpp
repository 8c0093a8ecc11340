// `penstock profile --state`: any number of kills, and the digests are those of one run.
#include <chrono>
#include <csignal>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>

#include <penstock/rng.h>
#include <penstock/state.h>
#include <penstock/state_file.h>

#include "tests/support/figure.h"
#include "tests/support/program.h"
#include "tests/support/wait_until.h"

namespace penstock::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Flags = std::vector<std::string>;

Flags operator+(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class Resume : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    ASSERT_EQ(run_program({"synth", *folder_ / "tar", "--format", "tar", "--images", "150",
                           "--size", "40x50..60x70", "--shards", "3"})
                  .code,
              0);
  }
  static void TearDownTestSuite() { delete folder_; }

  Flags state() const { return {"--digests", at("D"), "--state", at("S")}; }
  std::string at(const std::string& name) const { return own_ / name; }
  std::string uninterrupted(const Flags& graph) const {
    const Outcome whole =
        run_program(Flags{"profile", "--quiet", "--digests", at("whole")} + graph);
    EXPECT_EQ(whole.code, 0) << whole.err;
    return read_file(at("whole"));
  }

  static TempFolder* folder_;
  TempFolder own_;
};

TempFolder* Resume::folder_ = nullptr;

TEST_F(Resume, DigestsAcrossKills) {
  const std::string tars = *folder_ / "tar/*.tar";
  const Flags common{"--seed", "3", "--epochs", "2"};
  constexpr int kSlowRuns = 3;
  const std::vector<Flags> graphs{
      {"--tar", tars, "--shuffle", "--random-resized-crop", "24", "--batch", "2"},
      {"--range", "3000", "--shuffle", "100", "--shard", "3,1", "--identity", "--batch", "8",
       "--drop-remainder"},
      {"--range", "300", "--batch", "7", "--unbatch", "--cache", "--repeat", "2", "--batch", "5"},
  };
  Rng random(1, 0, 0);
  for (const Flags& graph : graphs) {
    const std::string whole = uninterrupted(graph + Flags{"--seed", "3", "--epochs", "2"});
    std::filesystem::remove(at("S"));
    std::filesystem::remove(at("S.previous"));
    int kills = 0;
    for (int run = 0;; ++run) {
      const std::string before = read_file(at("S"));
      Program program(Flags{"profile", "--quiet", "--save-every", "7", "--threads",
                            std::to_string(1 + run % 3), "--memory", run % 2 == 0 ? "8MiB" : "1GiB",
                            "--step-ms", run < kSlowRuns ? "30" : "0.4"} +
                      state() + common + graph);
      // The first runs are killed after a save, long before their end. Later ones get longer, so
      // that one of them reaches the end.
      if (run < kSlowRuns) {
        ASSERT_TRUE(wait_until([&] { return read_file(at("S")) != before || program.ended(); }));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5 + random.below(20) + 8 * run));
      program.signal(SIGKILL);
      const Outcome outcome = program.wait();
      if (outcome.code == 0) break;
      ASSERT_EQ(outcome.code, 128 + SIGKILL) << outcome.err;
      ++kills;
    }
    EXPECT_GT(kills, 2);
    EXPECT_EQ(read_file(at("D")), whole);
  }
}

TEST_F(Resume, SavesOnSigtermAndLeavesWithZero) {
  const Flags graph{"--range", "1000000", "--shuffle", "--batch", "1", "--batches", "2000"};
  const std::string whole = uninterrupted(graph + Flags{"--seed", "4"});
  const Flags common = Flags{"profile", "--quiet"} + graph + state();
  int interrupted = 0;
  std::uint64_t saved = 0;
  double longest = 0;
  for (;;) {
    // Only the first is given the seed. It is slow, so that it can't end before the signal.
    const Flags flags =
        common + (interrupted == 0 ? Flags{"--seed", "4", "--save-every", "50", "--step-ms", "10"}
                                   : Flags{"--save-every", "300", "--step-ms", "1"});
    std::filesystem::remove(at("report"));
    const std::string before = read_file(at("S"));
    Program program(flags + Flags{"--json", at("report")});
    ASSERT_TRUE(wait_until([&] { return read_file(at("S")) != before || program.ended(); }));
    // Some batches later, which only the save at the end can know of.
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + 7 * interrupted));
    program.signal(SIGTERM);
    const auto asked = std::chrono::steady_clock::now();
    // As `timeout` does it: once more, at once.
    program.signal(SIGTERM);
    ASSERT_EQ(program.wait().code, 0);
    longest = std::max(
        longest, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - asked)
                     .count());
    EXPECT_LT(longest, 60'000);
    const auto report = nlohmann::json::parse(read_file(at("report")));
    // What the run before had delivered when it was interrupted, not only when it saved by itself.
    if (interrupted > 0) {
      EXPECT_EQ(report["resumed"]["batches"].get<std::uint64_t>(), saved);
    }
    saved += report["batches"].get<std::uint64_t>();
    if (report["outcome"] == "batch limit") {
      EXPECT_EQ(saved, 2000U);
      EXPECT_LE(report["state_bytes"], 4096);
      break;
    }
    EXPECT_EQ(report["outcome"], "interrupted");
    EXPECT_GT(report["batches"], 0);
    ++interrupted;
  }
  EXPECT_GE(interrupted, 1);
  figure("F13", "%d runs told by SIGTERM: saved and left with 0, at most %.0f ms after",
         interrupted, longest);
  EXPECT_EQ(read_file(at("D")), whole);
}

TEST_F(Resume, GoesOnWithAnotherNumberOfConsumers) {
  const auto consumer = [&](const std::string& name, int count, int index) {
    return Flags{"profile",
                 "--quiet",
                 "--range",
                 "120",
                 "--shuffle",
                 "--shard",
                 std::to_string(count) + "," + std::to_string(index),
                 "--identity",
                 "--batch",
                 "4",
                 "--digests",
                 at(name + ".D"),
                 "--state",
                 at(name + ".S")};
  };
  const auto lines = [&](const std::string& name) {
    std::vector<std::string> digests;
    std::istringstream text(read_file(at(name + ".D")));
    for (std::string epoch, batch, rows, digest; text >> epoch >> batch >> rows >> digest;)
      digests.push_back(digest);
    return digests;
  };
  // One consumer of batches of 4 x 3 has the same elements at each step as three of 4, but not the
  // same digests: so three are compared with three, by way of two.
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(run_program(consumer("whole" + std::to_string(i), 3, i) + Flags{"--seed", "5"}).code,
              0);
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(run_program(consumer("old" + std::to_string(i), 2, i) +
                          Flags{"--seed", "5", "--batches", "6"})
                  .code,
              0);
  const Flags old{"--resume-from", at("old0.S"), at("old1.S")};
  for (int i = 0; i < 3; ++i) {
    const std::string name = "new" + std::to_string(i);
    const Outcome outcome = run_program(consumer(name, 3, i) + old + Flags{"--batches", "2"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    // From now on by its own state.
    const Outcome rest = run_program(consumer(name, 3, i) + old);
    ASSERT_EQ(rest.code, 0) << rest.err;
    // 48 of 120 elements were delivered by the two: 4 steps of the three.
    const auto whole = lines("whole" + std::to_string(i));
    EXPECT_EQ(lines(name), std::vector<std::string>(whole.begin() + 4, whole.end())) << i;
  }
  EXPECT_THAT(run_program(consumer("old0", 3, 0)).err,
              AllOf(HasSubstr("shard 0 of 2, not 0 of 3"), HasSubstr("--resume-from")));
  EXPECT_THAT(run_program(consumer("none", 3, 0) + Flags{"--resume-from", at("old0.S")}).err,
              HasSubstr("1 states of 2 consumers"));
  EXPECT_THAT(run_program(consumer("none", 3, 0) + Flags{"--resume-from", at("nowhere")}).err,
              HasSubstr("there is no state"));
}

TEST_F(Resume, OfAFinishedRunChangesNothing) {
  const Flags run = Flags{"profile", "--quiet", "--range", "100", "--batch", "8"} + state();
  ASSERT_EQ(run_program(run).code, 0);
  const std::string digests = read_file(at("D"));
  const Outcome again = run_program(run + Flags{"--json", "-"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.json()["batches"], 0);
  EXPECT_EQ(again.json()["resumed"]["batches"], 13);
  EXPECT_EQ(read_file(at("D")), digests);
  // More epochs continue behind it.
  ASSERT_EQ(run_program(run + Flags{"--epochs", "2"}).code, 0);
  EXPECT_EQ(read_file(at("D")), uninterrupted({"--range", "100", "--batch", "8", "--epochs", "2"}));
}

TEST_F(Resume, RefusesWhatIsNotTheSame) {
  const Flags graph{"--tar", *folder_ / "tar/*.tar", "--shuffle", "--center-crop", "16"};
  const Flags start = Flags{"profile", "--quiet"} + state();
  ASSERT_EQ(
      run_program(start + graph + Flags{"--batch", "8", "--seed", "1", "--batches", "3"}).code, 0);
  const std::string before = read_file(at("D"));
  struct Case {
    Flags flags;
    int code;
    std::string says;
  };
  // The same shards, but one has grown by two empty blocks.
  std::filesystem::copy(*folder_ / "tar", at("tar"));
  std::string grown;
  for (const auto& entry : std::filesystem::directory_iterator(at("tar")))
    if (entry.path().extension() == ".tar") grown = std::max(grown, entry.path().string());
  std::filesystem::resize_file(grown, std::filesystem::file_size(grown) + 1024);
  for (const Case& wrong : std::vector<Case>{
           {graph + Flags{"--batch", "9"}, 2, "stage batch["},
           {graph + Flags{"--batch", "8", "--seed", "2"}, 2, "seed 1, not 2"},
           {{"--tar", at("tar/*.tar"), "--shuffle", "--center-crop", "16", "--batch", "8"},
            2,
            "shard " + std::filesystem::path(grown).filename().string()},
           {{"--range", "10"}, 2, "stage"}}) {
    const Outcome outcome = run_program(start + wrong.flags);
    EXPECT_EQ(outcome.code, wrong.code) << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(wrong.says), HasSubstr(at("S"))));
    EXPECT_EQ(read_file(at("D")), before) << "cut although nothing continued";
  }
  own_.write("D", before.substr(0, before.size() - 1));
  EXPECT_THAT(run_program(start + graph + Flags{"--batch", "8"}).err,
              AllOf(HasSubstr("the state expects"), HasSubstr(at("D"))));
  own_.write("D", "0" + before.substr(1, before.size() - 3) + "e\n");
  EXPECT_THAT(run_program(start + graph + Flags{"--batch", "8"}).err,
              testing::AnyOf(HasSubstr("the batches in the file differ"),
                             HasSubstr("not a line of digests")));
  EXPECT_EQ(run_program({"profile", "--range", "10", "--state", at("S")}).code, 2);
}

// A state whose checksum is right, but not what it says.
TEST_F(Resume, RefusesAForgedState) {
  const Flags run = Flags{"profile", "--quiet",  "--range", "100",       "--batch",
                          "8",       "--epochs", "3",       "--batches", "20"} +
                    state();
  ASSERT_EQ(run_program(run).code, 0);
  const std::string sound = *load_state(at("S"));
  const std::string_view format = "profile 1\n";
  ASSERT_TRUE(sound.starts_with(format));
  constexpr std::size_t kNumbers = 7;
  for (std::size_t forged = 0; forged < kNumbers; ++forged) {
    StateReader reader(std::string_view(sound).substr(format.size()));
    StateWriter writer;
    for (std::size_t i = 0; i < kNumbers; ++i) writer.put(reader.get() + (i == forged ? 1 : 0));
    writer.put_bytes(reader.get_bytes());
    save_state(at("S"), std::string(format) + writer.bytes());
    std::filesystem::remove(at("S.previous"));
    const Outcome outcome = run_program(run);
    EXPECT_EQ(outcome.code, 1) << "number " << forged << ": " << outcome.err;
    EXPECT_TRUE(outcome.err.find(at("S")) != std::string::npos ||
                outcome.err.find(at("D")) != std::string::npos)
        << outcome.err;
  }
  save_state(at("S"), sound);
  EXPECT_EQ(run_program(run).code, 0);
}

TEST_F(Resume, PositionsOfTowers) {
  for (const Flags& mode :
       {Flags{"--feed", "split"}, Flags{"--feed", "per_tower", "--epoch-end", "pad"},
        Flags{"--feed", "sharded", "--epoch-end", "stop"}, Flags{"--pace", "free"}}) {
    SCOPED_TRACE(mode.back());
    for (const char* file : {"T", "T.previous"}) std::filesystem::remove(at(file));
    const Flags run = Flags{"profile",       "--quiet", "--range",  "2000",   "--shuffle",
                            "--batch",       "8",       "--epochs", "2",      "--device",
                            "host:0,host:1", "--state", at("T"),    "--json", at("report"),
                            "--save-every",  "5"} +
                      mode;
    Rng random(2, 0, 0);
    int stopped = 0;
    for (int hop = 0;; ++hop) {
      const std::string before = read_file(at("T"));
      // The first is slow, so that it is stopped long before its end.
      Program program(run + Flags{"--step-ms", hop == 0 ? "30" : "1"});
      ASSERT_TRUE(wait_until([&] { return read_file(at("T")) != before || program.ended(); }));
      std::this_thread::sleep_for(std::chrono::milliseconds(random.below(100) + 40 * hop));
      program.signal(hop % 2 == 0 ? SIGTERM : SIGKILL);
      const Outcome outcome = program.wait();
      if (outcome.code == 128 + SIGKILL) continue;
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      const auto report = nlohmann::json::parse(read_file(at("report")));
      if (report["outcome"] == "interrupted") {
        ++stopped;
        continue;
      }
      EXPECT_EQ(report["outcome"], "finished");
      // 250 batches an epoch; as wholes to one tower each, or as halves to both.
      const std::uint64_t parts = mode.back() == "split" ? 2 : 1;
      EXPECT_EQ(report["resumed"]["elements"].get<std::uint64_t>() +
                    report["elements"].get<std::uint64_t>(),
                4000U);
      EXPECT_EQ(report["resumed"]["batches"].get<std::uint64_t>() +
                    report["batches"].get<std::uint64_t>(),
                500 * parts);
      EXPECT_LE(report["state_bytes"], 4096);
      break;
    }
    EXPECT_GE(stopped, 1);
  }
}

}  // namespace
}  // namespace penstock::test
