// What is said of a run, and what each change to it would bring.
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "report/prizes.h"
#include "tests/tools/made_reports.h"

namespace penstock::tool {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Verdict, NamesTheStageThatComputes) {
  const Report report =
      run({stage("images[0]", 1), stage("map[1] decode_image", 18), stage("batch[2]", 0.1)}, 19.5);
  EXPECT_THAT(verdict(report).text, AllOf(HasSubstr("map[1] decode_image limits the run"),
                                          HasSubstr("raise --threads (2 of 4 cores")));
}

TEST(Verdict, SaysWhatHelpsWhenEveryCoreIsUsed) {
  Report report = run({stage("images[0]", 1), stage("map[1] decode_image", 18)}, 19.5);
  report.cpus = 2;
  EXPECT_THAT(verdict(report).text, HasSubstr("images stored no larger than they are used"));
  report.stats.stages[1].name = "map[1] mine";
  EXPECT_THAT(verdict(report).text, HasSubstr("less work in that stage"));
}

TEST(Verdict, NamesReading) {
  Report report = run({stage("tar[0]", 60), stage("map[1] decode_image", 2)}, 3);
  report.stats.readers = 8;
  report.stats.stages[0].apart_s = 60;
  EXPECT_THAT(verdict(report).text,
              AllOf(HasSubstr("tar[0] limits the run"), HasSubstr("io_uring")));
  // Four threads on two CPUs: the reads of what is in the page cache take what there is.
  report.stats.threads = 4;
  report.cpus = 2;
  report.cpu_s = 19;
  EXPECT_THAT(verdict(report).text,
              AllOf(HasSubstr("tar[0] limits the run"), HasSubstr("--io mmap, which copies less"),
                    testing::Not(HasSubstr("or more --io-threads"))));
  EXPECT_NEAR(verdict(report).rate_half, 1000 / (10 - 0.5 * 60. / 62 * 10), 1);
}

TEST(Verdict, NamesTheMemoryBudget) {
  const Report report = run(
      {stage("tar[0]", 1), stage("map[1] decode_image", 4), stage("batch[2]", 0, 8, "memory")}, 5);
  EXPECT_THAT(verdict(report).text, AllOf(HasSubstr("memory budget"), HasSubstr("96.0 MiB"),
                                          HasSubstr("raise --memory")));
}

TEST(Verdict, NamesTheConsumer) {
  Report report = run({stage("range[0]", 0.1), stage("batch[1]", 0.1)}, 1);
  report.wait_s = 0.2;
  report.step_s = 9.5;
  EXPECT_THAT(verdict(report).text, AllOf(HasSubstr("consumer"), HasSubstr("simulated step")));
  report.step_s = 0;
  report.digest_s = 9.5;
  EXPECT_THAT(verdict(report).text, HasSubstr("--digest"));
}

TEST(Verdict, NamesHandingOver) {
  Report report = run({stage("range[0]", 0.5), stage("map[1] identity", 1)}, 11);
  const Verdict said = verdict(report);
  EXPECT_THAT(said.text, HasSubstr("Handing elements over"));
  EXPECT_NEAR(said.rate_then, 1000 / 0.75, 1) << "all that is left is the stages' own work";
  EXPECT_THAT(said.text, HasSubstr("1.33k elements/s and more instead of 100"));
  report.elements = 2;  // of which the CPU time of the start says nothing
  EXPECT_NE(verdict(report).cause, "hand-over");
}

TEST(Verdict, NamesAMapWhoseThreadsWait) {
  Report report = run({stage("range[0]", 0.1), stage("map[1] fetch", 36)}, 1);
  report.stats.readers = 4;
  report.stats.stages[1].apart_s = 36;
  const Verdict said = verdict(report);
  EXPECT_EQ(said.cause, "stage map[1] fetch");
  EXPECT_THAT(said.text, AllOf(HasSubstr("3.60 threads were in it"), HasSubstr("--io-threads")));
  EXPECT_NEAR(said.rate_half, 1000 / 5.5, 1);
  // They compute nothing: where few batches have room, it is the budget that they wait for.
  report.stats.stages[1].busy_s = report.stats.stages[1].apart_s = 8;
  report.stats.memory.budget_bytes = 40 << 20;
  report.slot_bytes = 33'700'000;
  EXPECT_EQ(verdict(report).cause, "budget");
  EXPECT_NEAR(verdict(report).rate_then, 1000 / 2., 1);
  // Each of its threads may have made an element that is in no slot yet: 6 of 0.3 MB.
  EXPECT_EQ(verdict(report).remedy,
            "one batch slot fits in 40.0 MiB, four need 146.9 MiB: --memory 160MiB");
  report.batches = 1000;
  EXPECT_THAT(verdict(report).remedy, HasSubstr("four need 321.4 MiB"));
}

TEST(Verdict, BeginsWithWhatHoldsTowersUp) {
  EXPECT_THAT(verdict(fed("copy", 4)).text,
              AllOf(HasSubstr("Copies to host:0 limit the run"), HasSubstr("20.0 ms"),
                    HasSubstr("125 elements/s, without it at most 167 elements/s instead of 100")));
  EXPECT_EQ(verdict(fed("slots", 4)).remedy, "--device-slots 3");
  EXPECT_THAT(verdict(fed("other tower", 4)).text, HasSubstr("--pace free"));
  EXPECT_THAT(verdict(fed("stage map[1] mine", 4)).text, HasSubstr("map[1] mine limits the run"));
  Report reading = fed("source", 4);
  reading.stats.readers = 8;
  reading.stats.stages[0].apart_s = 1;
  EXPECT_THAT(verdict(reading).text,
              AllOf(HasSubstr("tar[0] limits the run"), HasSubstr("--io-threads")));
  const Verdict said = verdict(fed("copy", 4));
  EXPECT_EQ(said.cause, "copy");
  EXPECT_EQ(said.gain_s, 4);
  EXPECT_NEAR(said.rate_then, 166.7, 0.1);
}

TEST(Verdict, SaysThatStepsLimitTowersThatHardlyStall) {
  Report report = fed("copy", 0);
  report.feed = {};
  for (TowerStats& tower : report.towers) tower.stall_s = 0.1;
  EXPECT_EQ(verdict(report).cause, "step");
  for (TowerStats& tower : report.towers) tower.stall_s = 2;
  EXPECT_THAT(verdict(report).text, HasSubstr("no one cause alone"));
}

TEST(Verdict, SaysHowMuchMemorySlotsNeed) {
  Report report = run({stage("tar[0]", 1), stage("map[1] decode_image", 4)}, 5);
  report.stats.memory.budget_bytes = 40 << 20;
  report.slot_bytes = 33'700'000;
  const Verdict said = verdict(report);
  EXPECT_EQ(said.cause, "budget");
  EXPECT_EQ(said.remedy, "one batch slot fits in 40.0 MiB, four need 146.9 MiB: --memory 160MiB");
  Report towers = fed("budget", 4);
  towers.stats.memory.budget_bytes = 40 << 20;
  towers.slot_bytes = 33'700'000;
  EXPECT_THAT(verdict(towers).text, HasSubstr("--memory 160MiB"));
}

TEST(Verdict, TellsThreadsThatComputeFromThoseThatWaitForACpu) {
  Report report = run({stage("tar[0]", 1), stage("map[1] decode_image", 16)}, 2);
  report.starved = {.ran_s = 2, .waited_s = 14, .throttled_s = 0, .others_s = 36};
  EXPECT_THAT(verdict(report).text,
              AllOf(HasSubstr("had one for 12%"), HasSubstr("other processes"),
                    HasSubstr("had 90% of the CPUs' time")));
  report.starved.throttled_s = 7.5;
  EXPECT_THAT(verdict(report).text, HasSubstr("a quota stopped them for 7.50 s"));
  EXPECT_EQ(verdict(report).cause, "cpu");
  // Threads that sleep want no CPU.
  report.starved = {.ran_s = 0.1, .waited_s = 0.4};
  EXPECT_EQ(verdict(report).cause, "stage map[1] decode_image");
  // Neither does an input whose pace others set: threads that wait for reads.
  report.starved = {.ran_s = 0.5, .waited_s = 2};
  report.stats.readers = 1;
  report.stats.stages = {stage("tar[0]", 9), stage("map[1] decode_image", 2)};
  report.stats.stages[0].apart_s = 9;
  EXPECT_EQ(verdict(report).cause, "source");
  report.stats.stages = {stage("tar[0]", 1), stage("map[1] decode_image", 16)};
  report.starved = {.ran_s = 2, .waited_s = 14, .others_s = 36};
  EXPECT_NEAR(verdict(report).rate_then, 1000 / 3., 1) << "seven of its ten seconds";
  // Threads that take CPUs from each other.
  report.cpu_s = 38;
  report.starved = {.ran_s = 3, .waited_s = 14, .others_s = 1};
  EXPECT_THAT(verdict(report).text, AllOf(HasSubstr("map[1] decode_image limits the run"),
                                          HasSubstr("Its threads waited for a CPU in 82%"),
                                          Not(HasSubstr("more threads"))))
      << "two threads on four CPUs";
  report.stats.threads = 5;
  EXPECT_THAT(verdict(report).text,
              HasSubstr("more threads than CPUs: they waited for each other in 82%"));
}

TEST(Verdict, SaysWhatItsRemedyWouldBring) {
  const Verdict said =
      verdict(run({stage("images[0]", 0.2), stage("map[1] decode_image", 18)}, 19.5));
  EXPECT_EQ(said.cause, "stage map[1] decode_image");
  EXPECT_GT(said.gain_s, 8);
  EXPECT_GT(said.rate_half, 150);
  EXPECT_LT(said.rate_half, 220);
  EXPECT_THAT(said.text, HasSubstr("elements/s instead of 100 elements/s"));
}

// Ten seconds, of which nine are waited for an input whose threads are busy for 9.1.
TEST(Prizes, AreBoundedByThisRun) {
  Report report = run({stage("images[0]", 0.2), stage("map[1] decode_image", 18)}, 19.5);
  report.wait_s = 9.1;
  report.decoding.images.jpeg = 1000;
  std::map<std::string, std::pair<double, double>> of;
  for (const Prize& prize : prizes(report)) of[prize.change] = {prize.low, prize.high};
  EXPECT_NEAR(of["a free input"].first, 1000, 1e-9);
  EXPECT_NEAR(of["a free input"].second, 1000 / 0.9, 1e-9) << "also the first batch";
  EXPECT_NEAR(of["one more core"].first, 1000 / (10 - 9.1 / 3 + 0.9), 0.1);
  EXPECT_NEAR(of["one more core"].second, 1000 / (10 - 9.1 / 3), 0.1);
  EXPECT_NEAR(of["images packed as records"].first, 100, 1e-9);
  EXPECT_NEAR(of["images packed as records"].second, 1000, 1e-9);
  // Of whose work a third is what is done to pixels, which records do not spare.
  report.decoding.timed_s = 3;
  report.decoding.timed_pixels_s = 1;
  for (const Prize& prize : prizes(report)) of[prize.change] = {prize.low, prize.high};
  EXPECT_NEAR(of["images packed as records"].first, 1000 / (10 - 3 + 0.9), 1);
  EXPECT_NEAR(of["images packed as records"].second, 1000 / (10 - 6.), 1);
  report.decoding.timed_s = report.decoding.timed_pixels_s = 0;
  EXPECT_FALSE(of.contains("twice the memory"));
  EXPECT_THAT(
      prizes_text(report),
      AllOf(
          HasSubstr("In elements/s, 100 now: 1.00k to 1.11k with a free input, 127 to 144 with one "
                    "more core"),
          HasSubstr("100 to 1.00k with images packed as records")));
  EXPECT_THAT(report_text(report, false, 100), HasSubstr("127 to 144 with one"));
  const auto json = nlohmann::json::parse(report_json(report));
  EXPECT_EQ(json["verdict"]["prizes"][0]["change"], "a free input");
  EXPECT_NEAR(json["verdict"]["prizes"][0]["low"], 1000, 1e-9);
  report.starved = {.ran_s = 2, .waited_s = 16, .others_s = 36};
  report.cpu_s = 2;
  EXPECT_THAT(prizes_text(report), testing::Not(HasSubstr("core"))) << "others would have it";
  report.elements = 0;
  EXPECT_TRUE(prizes(report).empty());
}

TEST(Verdict, IsOneSentenceEvenForNothing) {
  Report report = run({}, 0);
  EXPECT_FALSE(verdict(report).text.empty());
  report.elements = 0;
  EXPECT_EQ(verdict(report).text, "Nothing was delivered.");
  report.ending = Ending::failed;
  EXPECT_EQ(verdict(report).text, "The run failed before its end.");
}

TEST(Verdict, NamesFieldsToProgramsOfTheirOwn) {
  Report report = fed("slots", 4);
  report.of_program = false;
  EXPECT_EQ(verdict(report).remedy, "FeedOptions::slots = 3");
  report = fed("other tower", 4);
  report.of_program = false;
  EXPECT_THAT(verdict(report).text, HasSubstr("FeedOptions::in_turn = false"));
  report = run({stage("tar[0]", 1), stage("map[1] decode_image", 4)}, 5);
  report.of_program = false;
  report.stats.memory.budget_bytes = 40 << 20;
  report.slot_bytes = 33'700'000;
  EXPECT_THAT(verdict(report).remedy, HasSubstr("RunOptions::memory_bytes = 160 << 20"));
  report = run({stage("tar[0]", 60), stage("map[1] decode_image", 2)}, 3);
  report.of_program = false;
  EXPECT_THAT(verdict(report).text,
              AllOf(HasSubstr("RunOptions::io_threads"), testing::Not(HasSubstr("--"))));
  report.wait_s = 0.2;
  EXPECT_THAT(verdict(report).text, HasSubstr("The program's own work between batches"));
}

}  // namespace
}  // namespace penstock::tool
