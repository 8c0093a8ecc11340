#include "tools/penstock/report/report.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace penstock::tool {
namespace {

using testing::AllOf;
using testing::HasSubstr;

StageStats stage(const char* name, double busy_s, double wait_s = 0, const char* waits_on = "") {
  StageStats stats;
  stats.name = name;
  stats.items = 1000;
  stats.bytes = 4096;
  stats.busy_s = busy_s;
  stats.wait_s = wait_s;
  stats.waits_on = waits_on;
  return stats;
}

/// Ten seconds on two threads of four cores, consumer always waiting.
Report run(std::vector<StageStats> stages, double cpu_s) {
  Report report;
  report.elements = 1000;
  report.batches = 10;
  report.epochs = 1;
  report.wall_s = 10;
  report.wait_s = 9.5;
  report.first_batch_s = 0.1;
  report.cpu_s = cpu_s;
  report.cpus = 4;
  report.seed = 7;
  report.io = "pread";
  report.stats.threads = 2;
  report.stats.stages = std::move(stages);
  report.stats.memory = {96 << 20, 1 << 20, 73 << 20};
  return report;
}

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
  const Report report = run({stage("tar[0]", 60), stage("map[1] decode_image", 2)}, 3);
  EXPECT_THAT(verdict(report).text,
              AllOf(HasSubstr("tar[0] limits the run"), HasSubstr("io_uring")));
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
  const Report report = run({stage("range[0]", 0.5), stage("map[1] identity", 1)}, 11);
  EXPECT_THAT(verdict(report).text, HasSubstr("Handing elements over"));
}

/// Two towers that took 100 steps of 50 ms each, and stalled the rest.
Report fed(const std::string& cause, double gain_s) {
  Report report = run({stage("tar[0]", 1), stage("map[1] mine", 1)}, 2);
  for (const char* device : {"host:0", "host:1"}) {
    TowerStats tower;
    tower.device = device;
    tower.steps = 100;
    tower.elements = 500;
    tower.wall_s = 10;
    tower.step_s = 5;
    tower.stall_s = 4.9;
    tower.other_s = 0.1;
    tower.copy_s = 2;
    tower.causes = {{"copy", 4.9}};
    tower.gains = {{cause, gain_s}};
    report.towers.push_back(tower);
  }
  report.feed = {cause, gain_s, 1000 / (10 - gain_s), 1000 / (10 - gain_s / 2)};
  report.device_slots = 2;
  return report;
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
  report.starved = {.ran_s = 2, .waited_s = 14, .throttled_s = 0, .pressure_s = 9};
  EXPECT_THAT(verdict(report).text,
              AllOf(HasSubstr("had one for 12%"), HasSubstr("other processes"),
                    HasSubstr("90% of the time")));
  report.starved.throttled_s = 7.5;
  EXPECT_THAT(verdict(report).text, HasSubstr("a quota stopped them for 7.50 s"));
  EXPECT_EQ(verdict(report).cause, "cpu");
  // Threads that wait for each other use all CPUs.
  report.cpu_s = 38;
  report.starved.ran_s = 3;
  EXPECT_THAT(verdict(report).text, HasSubstr("map[1] decode_image limits the run"));
}

TEST(Verdict, SaysWhatItsRemedyWouldBring) {
  const Verdict said =
      verdict(run({stage("images[0]", 0.2), stage("map[1] decode_image", 18)}, 19.5));
  EXPECT_EQ(said.cause, "stage map[1] decode_image");
  EXPECT_GT(said.gain_s, 8);
  EXPECT_GT(said.rate_half, 150);
  EXPECT_LT(said.rate_half, 220);
  EXPECT_THAT(said.text, AllOf(HasSubstr("elements/s instead of 100 elements/s"),
                               HasSubstr("A core more would bring up to 150 elements/s")));
}

TEST(Verdict, IsOneSentenceEvenForNothing) {
  Report report = run({}, 0);
  EXPECT_FALSE(verdict(report).text.empty());
  report.elements = 0;
  EXPECT_EQ(verdict(report).text, "Nothing was delivered.");
  report.ending = Ending::failed;
  EXPECT_EQ(verdict(report).text, "The run failed before its end.");
}

TEST(Report, CountsStallsAfterTheFirstBatch) {
  Report report = run({}, 0);
  report.wall_s = 10.1;
  report.first_batch_s = 0.1;
  report.wait_s = 1.1;
  EXPECT_NEAR(report.stall_share(), 0.1, 1e-9);
  report.wall_s = 0;
  EXPECT_EQ(report.stall_share(), 0);
}

TEST(ReportJson, HasEveryFieldThatIsPromised) {
  Report report = run({stage("tar[0]", 1, 2, "output")}, 5);
  report.stats.errors.count = 2;
  report.stats.errors.first.emplace_back(ErrorCode::data_loss, "cut short",
                                         Provenance{"a\xff.tar", 512, 3, "map[1] decode_image"});
  report.stats.errors.first.emplace_back(ErrorCode::user, "no address");
  const auto json = nlohmann::json::parse(report_json(report, "x"));
  EXPECT_DOUBLE_EQ(json["elements_per_second"], 100);
  EXPECT_DOUBLE_EQ(json["cpu_seconds_per_1000"], 5);
  EXPECT_DOUBLE_EQ(json["first_batch_ms"], 100);
  EXPECT_EQ(json["elements"], 1000);
  EXPECT_EQ(json["batches"], 10);
  EXPECT_EQ(json["errors"]["count"], 2);
  const auto& first = json["errors"]["first"];
  EXPECT_EQ(first[0]["path"], "a\uFFFD.tar") << "JSON is UTF-8, names need not be";
  EXPECT_EQ(first[0]["offset"], 512);
  EXPECT_EQ(first[0]["index"], 3);
  EXPECT_EQ(first[0]["stage"], "map[1] decode_image");
  EXPECT_EQ(first[0]["cause"], "cut short");
  EXPECT_TRUE(first[1]["offset"].is_null());
  const auto& only = json["stages"][0];
  EXPECT_EQ(only["name"], "tar[0]");
  EXPECT_EQ(only["items"], 1000);
  EXPECT_EQ(only["bytes"], 4096);
  EXPECT_EQ(only["busy_s"], 1);
  EXPECT_EQ(only["wait_s"], 2);
  EXPECT_EQ(only["waits_on"], "output");
  EXPECT_EQ(json["memory"]["budget_bytes"], 96 << 20);
  EXPECT_EQ(json["memory"]["peak_bytes"], 73 << 20);
  EXPECT_TRUE(json["memory"].contains("rss_peak_bytes"));
  EXPECT_EQ(json["threads"], 2);
  EXPECT_TRUE(json["digest"].is_null());
  EXPECT_TRUE(json.contains("jpeg_backend"));
  EXPECT_TRUE(json["verdict"]["text"].is_string());
  for (const char* field : {"cause", "remedy", "gain_s", "rate_then", "rate_half"})
    EXPECT_TRUE(json["verdict"].contains(field)) << field;
  report.digest = 0xabc;
  EXPECT_EQ(nlohmann::json::parse(report_json(report, "x"))["digest"], "0000000000000abc");
}

Report with_timeline() {
  Report report = run({stage("tar[0]", 1), stage("map[1] <decode>", 18)}, 19);
  for (int i = 1; i <= 5; ++i)
    report.timeline.push_back(
        {i * 0.1, i * 100.0, static_cast<std::uint64_t>(i) << 20, {0.5, 1.5}, {}});
  return report;
}

TEST(ReportTrace, CountsOverTime) {
  const auto trace = nlohmann::json::parse(report_trace(with_timeline()));
  std::map<std::string, int> counters;
  double last = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "C") continue;
    ++counters[event["name"]];
    EXPECT_GE(event["ts"], last);
    last = event["ts"];
    if (event["name"] != "threads busy") continue;
    EXPECT_EQ(event["args"]["map[1] <decode>"], 1.5);
  }
  EXPECT_EQ(counters,
            (std::map<std::string, int>{{"elements/s", 5}, {"memory", 5}, {"threads busy", 5}}));
  EXPECT_DOUBLE_EQ(last, 5e5);
}

TEST(ReportHtml, ShowsAllAndEscapes) {
  Report report = with_timeline();
  report.stats.errors.count = 1;
  report.stats.errors.first.emplace_back(ErrorCode::data_loss, "<script>alert(1)</script>");
  const std::string page = report_html(report, "tar a&b.tar");
  EXPECT_THAT(page, AllOf(HasSubstr("100 elements/s"), HasSubstr("tar a&amp;b.tar"),
                          HasSubstr("map[1] &lt;decode&gt;"), HasSubstr("limits the run"),
                          HasSubstr("&lt;script&gt;"), HasSubstr("<polyline"),
                          testing::Not(HasSubstr("<script"))));
  EXPECT_THAT(page, testing::Not(HasSubstr("http"))) << "needs nothing from elsewhere";
  report.timeline.clear();
  EXPECT_THAT(report_html(report, "x"), testing::Not(HasSubstr("<polyline")));
}

TEST(ReportHtml, HasARowForEachTower) {
  Report report = fed("copy", 4);
  for (int i = 1; i <= 5; ++i)
    report.timeline.push_back({i * 0.1, 100, 1 << 20, {0.5, 1.5}, {0.5, 0.25}});
  const std::string page = report_html(report, "x");
  EXPECT_THAT(page, AllOf(HasSubstr("Tower 1 host:1 stalled"), HasSubstr("waited for copy 4.90 s"),
                          HasSubstr("sooner without copy 4.00 s"), HasSubstr("Copies to host:0")));
}

TEST(ReportText, FitsNarrowTerminals) {
  Report report = run({stage("images[0]", 1), stage("map[1] decode_image and much more", 18)}, 19);
  report.stats.errors.count = 12;
  for (int i = 0; i < 12; ++i)
    report.stats.errors.first.emplace_back(ErrorCode::data_loss, "cut \x1b[31m short");
  const std::string text = report_text(report, false, 100);
  EXPECT_THAT(text,
              AllOf(HasSubstr("1,000 elements in 10 batches, 1 epoch, 10.0 s: 100 elements/s"),
                    HasSubstr("12 bad elements"), HasSubstr("and 2 more"),
                    HasSubstr("cut \\x1b[31m short")));
  EXPECT_THAT(report_text(report, false, 20), HasSubstr("decode_image"));
}

}  // namespace
}  // namespace penstock::tool
