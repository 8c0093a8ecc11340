// One verdict over the reports of several ranks, each with a cause that was planted or none.
#include "report/merge.h"

#include <cstdlib>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <penstock/error.h>
#include <penstock/report.h>
#include <penstock/version.h>

#include "report/observed_runs.h"

namespace penstock::merge_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
using Json = nlohmann::json;

/// Returns a feed of ten seconds, of one tower that waited for nothing.
NamedRun feed() {
  NamedRun run{.feed = true};
  RunReport& report = run.report;
  report.version = version();
  report.elements = 1000;
  report.batches = 100;
  report.wall_s = 10;
  report.first_batch_s = 0.1;
  report.cpus = 4;
  report.stats.threads = 2;
  report.stats.stages = {{"tar[0]", 1000, 0, 1, 0, ""},
                         {"map[1] decode", 1000, 0, 1, 0, ""},
                         {"batch[2]", 100, 0, 0, 0, ""}};
  report.towers = {{"cuda:0", 100, 1000, 10}};
  report.towers[0].step_s = 9.9;
  return run;
}

void stall(RunReport& report, const std::string& cause, double seconds) {
  TowerStats& tower = report.towers[0];
  tower.stall_s = seconds;
  tower.step_s = 9.9 - seconds;
  tower.causes = tower.gains = {{cause, seconds}};
  report.feed = {cause, seconds, 1000 / (10 - seconds), 1000 / (10 - seconds / 2)};
}

/// Returns the report that a rank writes.
std::string written_by(int rank, int ranks, const std::vector<NamedRun>& runs) {
  ::setenv("RANK", std::to_string(rank).c_str(), 1);
  ::setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
  std::string text = runs_json(runs);
  ::unsetenv("RANK");
  ::unsetenv("WORLD_SIZE");
  return text;
}

RankReport parsed(int rank, int ranks, const std::vector<NamedRun>& runs) {
  return parse_rank_report(std::to_string(rank) + ".json", written_by(rank, ranks, runs));
}

MergedReport merged(const std::vector<NamedRun>& runs) {
  std::vector<RankReport> ranks;
  for (const NamedRun& run : runs)
    ranks.insert(ranks.begin(),
                 parsed(static_cast<int>(ranks.size()), static_cast<int>(runs.size()), {run}));
  return merge(std::move(ranks));
}

std::vector<int> worst_of(const MergedReport& report) {
  std::vector<int> ranks;
  for (const std::size_t i : report.worst) ranks.push_back(report.ranks[i].rank);
  return ranks;
}

struct Cause {
  const char* name;
  std::function<void(RunReport&)> plant;
  const char* cause;
  const char* stage;
  const char* shard;
};

void PrintTo(const Cause& cause, std::ostream* out) {
  *out << cause.name;
}

class PlantedCause : public testing::TestWithParam<std::tuple<int, Cause>> {};

TEST_P(PlantedCause, IsNamedWithItsRankStageAndShard) {
  const auto& [rank, planted] = GetParam();
  std::vector<NamedRun> runs(4, feed());
  for (NamedRun& run : runs) stall(run.report, "source", 0.1);
  planted.plant(runs[static_cast<std::size_t>(rank)].report);
  const MergedReport report = merged(runs);
  EXPECT_EQ(report.limit, MergedReport::Limit::ranks);
  ASSERT_THAT(worst_of(report), ElementsAre(rank));
  const RankReport& worst = report.ranks[report.worst[0]];
  EXPECT_EQ(worst.cause, planted.cause);
  EXPECT_EQ(worst.stage, planted.stage);
  EXPECT_EQ(worst.shard, planted.shard);
  EXPECT_THAT(report.text, AllOf(StartsWith("Rank " + std::to_string(rank) + " on "),
                                 HasSubstr("holds up the others"), HasSubstr("60% of the time"),
                                 HasSubstr(planted.stage), HasSubstr(planted.shard)));
  EXPECT_THAT(merged_text(report, false, 100), StartsWith(report.text + "\n"));
  const Json json = Json::parse(merged_json(report));
  EXPECT_EQ(json["verdict"]["limit"], "ranks");
  EXPECT_EQ(json["verdict"]["ranks"], Json({rank}));
  EXPECT_EQ(json["verdict"]["stage"], planted.stage);
  EXPECT_EQ(json["verdict"]["shard"], *planted.shard == '\0' ? Json() : Json(planted.shard));
  EXPECT_EQ(json["ranks"].size(), 4);
  EXPECT_THAT(json["missing"], IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, PlantedCause,
    testing::Combine(testing::Range(0, 4),
                     testing::Values(Cause{"slow_disk", [](RunReport& r) { stall(r, "source", 6); },
                                           "source", "tar[0]", ""},
                                     Cause{"slow_map",
                                           [](RunReport& r) { stall(r, "stage map[1] decode", 6); },
                                           "stage map[1] decode", "map[1] decode", ""},
                                     Cause{"slow_shard",
                                           [](RunReport& r) {
                                             stall(r, "source", 6);
                                             r.slow_shard = {"data/train-003.tar", 0.08, 0.002};
                                           },
                                           "source", "tar[0]", "data/train-003.tar"},
                                     Cause{"little_memory",
                                           [](RunReport& r) {
                                             stall(r, "budget", 6);
                                             r.stats.stages[2].wait_s = 5;
                                             r.stats.stages[2].waits_on = "memory";
                                           },
                                           "budget", "batch[2]", ""})),
    [](const auto& made) {
      return std::string(std::get<1>(made.param).name) + "_" +
             std::to_string(std::get<0>(made.param));
    });

TEST(Merge, SaysThatTheDevicesAreTheLimit) {
  const MergedReport report = merged({feed(), feed(), feed(), feed()});
  EXPECT_EQ(report.limit, MergedReport::Limit::devices);
  EXPECT_THAT(report.worst, IsEmpty());
  EXPECT_THAT(report.text, StartsWith("The devices limit all 4 ranks, and not their input"));
  const Json json = Json::parse(merged_json(report));
  EXPECT_EQ(json["verdict"]["limit"], "devices");
  EXPECT_THAT(json["verdict"]["ranks"], IsEmpty());
  EXPECT_TRUE(json["verdict"]["stage"].is_null());
}

TEST(Merge, SaysThatAllAreLimitedAlike) {
  std::vector<NamedRun> runs(4, feed());
  for (NamedRun& run : runs) stall(run.report, "stage map[1] decode", 6);
  stall(runs[0].report, "stage map[1] decode", 7);
  const MergedReport report = merged(runs);
  EXPECT_EQ(report.limit, MergedReport::Limit::all);
  EXPECT_EQ(report.text,
            "All 4 ranks are limited alike: each waited 60% to 70% of the time, for map[1] "
            "decode.");
  stall(runs[0].report, "source", 7);
  EXPECT_THAT(merged(runs).text, HasSubstr("3 of 4 for map[1] decode."));
}

TEST(Merge, NamesSeveralRanksThatHoldUpTheRest) {
  std::vector<NamedRun> runs(4, feed());
  stall(runs[1].report, "source", 5);
  stall(runs[3].report, "source", 6);
  const MergedReport report = merged(runs);
  EXPECT_THAT(worst_of(report), ElementsAre(3, 1));
  EXPECT_THAT(report.text,
              StartsWith("Ranks 1 and 3 hold up the others: rank 3 waited 60% of the time for "
                         "tar[0]; the others waited at most 0"));
}

TEST(Merge, CountsNoWaitForAnotherTowerOfTheSameRank) {
  std::vector<NamedRun> runs(2, feed());
  stall(runs[1].report, "other tower", 6);
  EXPECT_EQ(merged(runs).limit, MergedReport::Limit::devices);
  TowerStats& tower = runs[1].report.towers[0];
  tower.stall_s += 1;
  tower.causes.emplace_back("source", 1);
  EXPECT_THAT(merged(runs).text, HasSubstr("waited 10% of the time for tar[0]"));
}

NamedRun iterator(double waited_s) {
  NamedRun run = feed();
  run.feed = false;
  run.report.towers.clear();
  run.report.wait_s = 0.1 + waited_s;
  run.report.cpu_s = 2;
  run.report.stats.readers = 1;
  run.report.stats.stages[0].busy_s = run.report.stats.stages[0].apart_s = 9;
  return run;
}

TEST(Merge, TakesTheConsumersWaitWhereThereAreNoTowers) {
  std::vector<NamedRun> runs(4, iterator(0.1));
  runs[2] = iterator(7);
  const MergedReport report = merged(runs);
  EXPECT_THAT(worst_of(report), ElementsAre(2));
  EXPECT_THAT(report.text, HasSubstr("71% of the time for tar[0]"));
}

TEST(Merge, TakesTheSlowestOfRanksThatDoNotWaitForEachOther) {
  std::vector<NamedRun> runs(4, iterator(9.9));
  runs[1].report.batches = 50;
  const MergedReport report = merged(runs);
  EXPECT_THAT(worst_of(report), ElementsAre(1));
  EXPECT_THAT(report.text, AllOf(HasSubstr("it makes 5.05 steps/s"),
                                 HasSubstr("the others make at least 10.1 steps/s")));
  runs[1].report.batches = 90;
  EXPECT_EQ(merged(runs).limit, MergedReport::Limit::all);
}

TEST(Merge, JudgesTheLongestFeedOfAReport) {
  NamedRun validation = feed();
  validation.report.wall_s = 1;
  NamedRun slow = feed();
  stall(slow.report, "source", 6);
  NamedRun longer = iterator(0);
  longer.report.wall_s = 100;
  EXPECT_DOUBLE_EQ(parsed(0, 1, {validation, slow, longer}).stall_share, 0.6);
}

TEST(Merge, NamesMissingRanks) {
  EXPECT_EQ(missing_text(merged({feed(), feed()})), "");
  const MergedReport two = merge({parsed(3, 4, {feed()}), parsed(0, 4, {feed()})});
  EXPECT_EQ(missing_text(two), "the reports of ranks 1 and 2 are missing");
  const MergedReport many = merge({parsed(0, 100, {feed()}), parsed(2, 100, {feed()})});
  EXPECT_EQ(missing_text(many),
            "the reports of ranks 1, 3, 4, 5, 6, 7, 8, 9 and 90 more are missing");
}

TEST(Merge, PrintsNamesSafely) {
  NamedRun run = feed();
  stall(run.report, "source", 6);
  run.report.stats.stages[0].name = "tar[0] \x1b[31m";
  run.report.slow_shard = {"a/\xff\n.tar", 0.08, 0.002};
  const MergedReport report = merged({run, feed()});
  const std::string text = merged_text(report, false, 100);
  EXPECT_THAT(text, AllOf(Not(HasSubstr("\x1b")), HasSubstr("\\x0a.tar")));
  EXPECT_FALSE(Json::parse(merged_json(report)).empty());
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(Merge, RefusesFilesThatAreNoReportsByName) {
  const std::string good = written_by(0, 4, {feed()});
  const auto with = [&](const char* field, const Json& value) {
    Json json = Json::parse(good);
    json[field] = value;
    return json.dump();
  };
  for (const std::string& text :
       {std::string(), std::string("limits the run"), std::string("{}"), std::string("[1]"),
        good.substr(0, good.size() / 2), with("runs", "x"), with("runs", Json::array({1, 2})),
        with("penstock", 3), with("rank", nullptr), with("rank", -1), with("rank", 1e300),
        with("ranks", "4")})
    EXPECT_THAT(refusal([&] { parse_rank_report("a.json", text); }), HasSubstr("(a.json)")) << text;
  EXPECT_THAT(refusal([&] { parse_rank_report("a.json", with("penstock", "0.0.9")); }),
              HasSubstr("a report of version 0.0.9, and this is version"));
  EXPECT_THAT(refusal([&] { parse_rank_report("a.json", with("runs", Json::array())); }),
              HasSubstr("no run had begun"));
}

TEST(Merge, RefusesReportsThatDoNotBelongTogether) {
  EXPECT_THAT(refusal([] { merge({parsed(0, 4, {feed()})}); }), HasSubstr("two reports or more"));
  EXPECT_EQ(refusal([] {
              merge({parsed(1, 4, {feed()}), parsed(1, 4, {feed()})});
            }),
            "a second report of rank 1, besides 1.json (1.json)");
  EXPECT_EQ(refusal([] {
              merge({parsed(0, 4, {feed()}), parsed(1, 8, {feed()})});
            }),
            "a report of another job, with 8 ranks; the job of 0.json has 4 (1.json)");
}

/// Returns ranks whose inputs are never late, and which waited for so much of the time for others.
std::vector<RankReport> waiting(const std::vector<double>& shares) {
  std::vector<RankReport> ranks;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    set_report_exposed(10 * shares[i]);
    ranks.push_back(parsed(static_cast<int>(i), static_cast<int>(shares.size()), {feed()}));
  }
  set_report_exposed(-1);
  return ranks;
}

TEST(SlowSteps, NameTheRanksThatOthersWaitFor) {
  struct Row {
    std::vector<double> shares;
    std::vector<int> worst;
  };
  const Row rows[] = {
      {{0.74, 0.75, 0.03, 0.76}, {2}},     // stopped three quarters of the time
      {{0.02, 0.75}, {0}},                 //
      {{0.10, 0.05, 0.60, 0.61}, {1, 0}},  // two of one slow host
      {{0.30, 0.31, 0.29, 0.30}, {}},      // the exchange itself is slow
      {{0.04, 0.00, 0.05, 0.04}, {}},      // and here it is not
      {{0.74, 0.75, -0.1, 0.76}, {}},      // one that does not say
  };
  for (const Row& row : rows) {
    const MergedReport report = merge(waiting(row.shares));
    SCOPED_TRACE(report.text);
    EXPECT_EQ(worst_of(report), row.worst);
    EXPECT_EQ(report.slow_steps, !row.worst.empty());
    EXPECT_EQ(report.limit,
              row.worst.empty() ? MergedReport::Limit::devices : MergedReport::Limit::ranks);
  }
  const MergedReport report = merge(waiting(rows[0].shares));
  EXPECT_THAT(report.text, AllOf(StartsWith("Rank 2 on "), HasSubstr("holds up the others"),
                                 HasSubstr("waited 3% of the time"), HasSubstr("at least 74%")));
  EXPECT_THAT(merged_text(report, false, 100), HasSubstr("74%"));
  EXPECT_EQ(Json::parse(merged_json(report))["ranks"][3]["exposed_share"], 0.76);
}

}  // namespace
}  // namespace penstock::merge_test
