// What a program of its own is told about its runs.
#include <penstock/report.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <penstock/penstock.h>

#include "tests/support/errors.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::json;

void sleep_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

Dataset slow_numbers(int batches, int ms) {
  return range(batches)
      .map([ms](Element number) {
        sleep_ms(ms);
        return number;
      })
      .batch(1);
}

TEST(Report, SaysThatTheProgramsOwnWorkLimitsARun) {
  const test::TimeLimit limit(60);
  Iterator run = slow_numbers(100, 0).iterate({.seed = 11, .threads = 1});
  while (Next batch = run.next()) {
    static_cast<void>(*batch);
    sleep_ms(5);
  }
  const Report said = report(run);
  EXPECT_EQ(said.verdict.cause, "step");
  EXPECT_THAT(said.text, StartsWith("The program's own work between batches limits the run"));
  const Json json = Json::parse(said.json);
  EXPECT_EQ(json["elements"], 100);
  EXPECT_EQ(json["batches"], 100);
  EXPECT_EQ(json["epochs"], 1);
  EXPECT_EQ(json["seed"], 11);
  EXPECT_EQ(json["guarantee"], "EXACT_IF_DETERMINISTIC");
  EXPECT_EQ(json["audit"][0]["missing"], 0);
  EXPECT_EQ(json["outcome"], "running");
  EXPECT_LT(json["stall_share"], 0.05);
  EXPECT_GT(json["wall_s"], 0.4);
  EXPECT_TRUE(json["pipeline"].is_null());
  EXPECT_EQ(json["verdict"]["text"], said.verdict.text);
}

TEST(Report, NamesTheStageThatLimitsARun) {
  const test::TimeLimit limit(60);
  Iterator run = slow_numbers(100, 5).iterate({.threads = 1});
  while (Next batch = run.next()) static_cast<void>(*batch);
  const Report said = report(run);
  // Or that others have the processors, where tests run side by side.
  EXPECT_THAT(said.verdict.cause, testing::AnyOf(StartsWith("stage map[1]"), "cpu"));
  EXPECT_THAT(said.text, HasSubstr("limits the run"));
  EXPECT_GT(Json::parse(said.json)["stall_share"], 0.8);
}

// A report is of the time that was spent on batches, not of what comes behind the last.
TEST(Report, StandsStillBehindTheEnd) {
  const test::TimeLimit limit(60);
  Iterator run = slow_numbers(3, 1).iterate();
  while (Next batch = run.next()) static_cast<void>(*batch);
  const double then = run.stats().wall_s;
  sleep_ms(50);
  EXPECT_EQ(run.stats().wall_s, then);
  EXPECT_LE(run.stats().wait_s, then);
  EXPECT_LE(run.stats().first_s, then);
}

TEST(Report, IsToBeHadBeforeTheFirstElement) {
  const test::TimeLimit limit(60);
  const Iterator run = slow_numbers(3, 1).iterate();
  const Report said = report(run);
  EXPECT_EQ(said.verdict.text, "Nothing was delivered.");
  EXPECT_TRUE(Json::parse(said.json)["first_batch_ms"].is_null());
}

TEST(ReportAtSignal, RefusedSignals) {
  for (const int signal :
       {0, -1, 64, SIGKILL, SIGSTOP, SIGUSR1, SIGTSTP, SIGCHLD, SIGWINCH, SIGSEGV})
    test::expect_error(ErrorCode::invalid_argument, "can't write a report",
                       [&] { report_at_signal(signal); });
  EXPECT_FALSE(report_at_signal(SIGTERM)) << "the environment asks for no file";
}

TEST(Report, BeginsWithWhatHoldsTowersUp) {
  const test::TimeLimit limit(60);
  Feed feed(slow_numbers(100, 0), devices("host:0:copies:latency_us=6000"));
  const Stream stream(feed.device(0).shared_from_this(), "tower 0");
  while (std::optional<StagedBatch> batch = feed.next(0)) {
    batch->wait(stream);
    stream.view().busy(1'000'000);
    batch->release(stream);
  }
  stream.view().synchronize();
  sleep_ms(20);  // the step's end is told a little later
  const Report said = report(feed);
  EXPECT_EQ(said.verdict.cause, "copy") << said.text;
  EXPECT_THAT(said.text, StartsWith("Copies to host:0 limit the run"));
  const Json json = Json::parse(said.json);
  EXPECT_EQ(json["elements"], 100);
  EXPECT_EQ(json["towers"].size(), 1);
  EXPECT_GT(json["verdict"]["gain_s"], 0);
  EXPECT_GT(json["verdict"]["rate_then"], json["elements_per_second"]);
}

}  // namespace
}  // namespace penstock
