#include "report/observed_runs.h"

#include <csignal>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <penstock/penstock.h>

#include "report/metrics.h"
#include "report/rank.h"
#include "report/service.h"
#include "tests/support/files.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::Not;

std::function<Observation()> having(std::uint64_t elements) {
  return [elements]() -> Observation {
    Stats stats;
    stats.elements = elements;
    return stats;
  };
}

TEST(ObservedRuns, KeepTheLastLookOfThoseThatEnded) {
  ObservedRuns runs;
  std::uint64_t elements = 1;
  const auto first = runs.add([&elements]() -> Observation {
    Stats stats;
    stats.elements = elements;
    return stats;
  });
  elements = 2;
  EXPECT_EQ(runs.live().at(0).report.elements, 2);
  EXPECT_EQ(runs.live().at(0).report.ending, Ending::running);
  elements = 3;
  runs.remove(first);
  elements = 4;
  EXPECT_TRUE(runs.live().empty());
  ASSERT_EQ(runs.all().size(), 1);
  EXPECT_EQ(runs.all()[0].report.elements, 3);
  EXPECT_EQ(runs.all()[0].report.ending, Ending::finished);
}

TEST(ObservedRuns, AreNumberedAndHaveTheLeastFreeLane) {
  ObservedRuns runs;
  const auto train = runs.add(having(1));
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    const auto validation = runs.add(having(2));
    EXPECT_THAT(runs.live(),
                ElementsAre(AllOf(Field(&NamedRun::number, 0), Field(&NamedRun::lane, 0)),
                            AllOf(Field(&NamedRun::number, epoch + 1), Field(&NamedRun::lane, 1))));
    runs.remove(validation);
  }
  runs.remove(train);
  for (std::size_t i = 0; i < 2 * ObservedRuns::kEndedKept; ++i) runs.remove(runs.add(having(3)));
  EXPECT_EQ(runs.all().size(), ObservedRuns::kEndedKept);
  EXPECT_EQ(runs.all().back().number, 3 + 2 * ObservedRuns::kEndedKept);
}

TEST(ObservedRuns, ForgetOneWhoseLastLookFails) {
  ObservedRuns runs;
  const auto run = runs.add([]() -> Observation { throw std::bad_alloc(); });
  runs.remove(run);
  EXPECT_TRUE(runs.all().empty());
}

TEST(ObservedRuns, AreAllInOneText) {
  ObservedRuns runs;
  EXPECT_EQ(runs_text(runs.all()), "No run has begun.\n");
  const auto train = runs.add(having(0));
  EXPECT_THAT(runs_text(runs.all()), Not(HasSubstr("run 0")));
  runs.remove(runs.add([]() -> Observation { return FeedStats(); }));
  const std::string text = runs_text(runs.all());
  EXPECT_THAT(text, AllOf(HasSubstr("run 1, a feed, finished\n"),
                          HasSubstr("run 0, an iterator, running\n")));
  const auto json = nlohmann::json::parse(runs_json(runs.all()));
  EXPECT_EQ(json["process"], ::getpid());
  EXPECT_EQ(json["runs"][0]["kind"], "feed");
  EXPECT_EQ(json["runs"][1]["outcome"], "running");
}

TEST(Metrics, AreEscapedAndWhole) {
  NamedRun run;
  StageStats stage;
  stage.name = "map[1] say \"\\\n\xff\"";
  stage.items = std::numeric_limits<std::uint64_t>::max();
  stage.busy_s = 0.1;
  run.report.stats.stages.push_back(stage);
  CounterFloor floor;
  const std::string text = metrics_text({run}, floor);
  EXPECT_THAT(text, AllOf(HasSubstr("stage=\"map[1] say \\\"\\\\\\\\x0a\\\\xff\\\"\"} 0.1\n"),
                          HasSubstr("} 18446744073709551616\n")));
  EXPECT_EQ(metrics_text({}, floor).find('{'), metrics_text({}, floor).rfind('{'))
      << "only what needs no run";
}

// A stall is charged to who seems to be the cause, until it is known.
TEST(Metrics, NeverGoBack) {
  NamedRun run;
  run.feed = true;
  run.report.towers.resize(1);
  CounterFloor floor;
  const auto stalls = [&](double source_s, double copy_s) {
    run.report.towers[0].causes = {{"source", source_s}, {"copy", copy_s}};
    return metrics_text({run}, floor);
  };
  EXPECT_THAT(stalls(2, 1),
              AllOf(HasSubstr("cause=\"source\"} 2\n"), HasSubstr("cause=\"copy\"} 1\n")));
  EXPECT_THAT(stalls(1, 2),
              AllOf(HasSubstr("cause=\"source\"} 2\n"), HasSubstr("cause=\"copy\"} 2\n")));
  EXPECT_THAT(stalls(3, 2), HasSubstr("cause=\"source\"} 3\n"));
  run.number = 1;  // another run in the same lane begins anew
  EXPECT_THAT(stalls(1, 0), HasSubstr("cause=\"source\"} 1\n"));
}

TEST(Rank, IsWhatTheLauncherSays) {
  const auto rank_with = [](std::vector<std::pair<const char*, const char*>> variables) {
    for (const char* name :
         {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_STEP_ID", "SLURM_PROCID"})
      ::unsetenv(name);
    for (const auto& [name, value] : variables) ::setenv(name, value, 1);
    return rank_of_process();
  };
  EXPECT_EQ(rank_with({}), 0);
  EXPECT_EQ(rank_with({{"RANK", "5"}, {"PMIX_RANK", "6"}}), 5);
  EXPECT_EQ(rank_with({{"RANK", "x"}, {"OMPI_COMM_WORLD_RANK", "4"}}), 4);
  EXPECT_EQ(rank_with({{"RANK", "-1"}, {"PMIX_RANK", "6"}}), 6);
  EXPECT_EQ(rank_with({{"PMI_RANK", "3"}}), 3);
  EXPECT_EQ(rank_with({{"SLURM_PROCID", "7"}}), 0) << "a batch script is no step";
  EXPECT_EQ(rank_with({{"SLURM_PROCID", "7"}, {"SLURM_STEP_ID", "0"}}), 7);
  EXPECT_EQ(ranks_of_job(), 0);
  ::setenv("SLURM_NTASKS", "9", 1);
  EXPECT_EQ(ranks_of_job(), 9);
  ::setenv("PMIX_RANK", "7", 1);
  EXPECT_EQ(ranks_of_job(), 9) << "PMIx does not tell";
  ::setenv("RANK", "7", 1);
  ::setenv("WORLD_SIZE", "8", 1);
  EXPECT_EQ(ranks_of_job(), 8);
  EXPECT_EQ(with_process("%r/%%p/%p%"), "7/%p/" + std::to_string(::getpid()) + "%");
  EXPECT_EQ(with_process("94%r0 %x"), "9470 %x");
  set_report_rank(1, 3);  // as a job does that was joined
  EXPECT_EQ(rank_of_process(), 1);
  EXPECT_EQ(ranks_of_job(), 3);
  set_report_rank(-1, 0);
  EXPECT_EQ(rank_of_process(), 7);
}

TEST(Endpoint, IsOnTheLoopbackUnlessSaidOtherwise) {
  const auto at = [](const char* text) {
    const Endpoint where = parse_endpoint(text);
    return where.host + " " + std::to_string(where.port);
  };
  EXPECT_EQ(at("9400"), "127.0.0.1 9400");
  EXPECT_EQ(at(":9400"), "127.0.0.1 9400");
  EXPECT_EQ(at("localhost:0"), "127.0.0.1 0");
  EXPECT_EQ(at("0.0.0.0:9400"), "0.0.0.0 9400");
  EXPECT_EQ(at("[::1]:9400"), "::1 9400");
  for (const char* text : {"9400", "localhost:9400", "127.1.2.3:9400", "[::1]:9400"})
    EXPECT_TRUE(is_loopback(parse_endpoint(text))) << text;
  for (const char* text : {"0.0.0.0:9400", "[::]:9400", "10.0.0.1:9400", "[fe80::1]:9400"})
    EXPECT_FALSE(is_loopback(parse_endpoint(text))) << text;
  for (const char* bad :
       {"", ":", "x", "a:b", "host:1", "1.2.3:4", "[::1]", "1:65536", "1:-1", "9400 "})
    EXPECT_THROW(parse_endpoint(bad), Error) << bad;
}

// Runs that are no feed's, a child of fork, and the process's end are seen in a process of its own.
TEST(Reporter, IsNothingToAChild) {
  const test::TimeLimit limit(60);
  const test::TempFolder folder;
  const std::string path = folder / "report.json";
  ::setenv("PENSTOCK_REPORT", path.c_str(), 1);
  const pid_t process = ::fork();  // this one has no runs yet
  if (process == 0) {
    const auto taken = [] {
      struct sigaction now {};
      ::sigaction(SIGUSR1, nullptr, &now);
      return now.sa_handler != SIG_DFL;
    };
    std::optional<Iterator> train = range(64).batch(4).iterate();
    for (Element& batch : *train) static_cast<void>(batch);
    if (!taken()) std::_Exit(1);
    const pid_t child = ::fork();
    if (child == 0) std::exit(taken() ? 2 : 0);  // runs what is to be run at the end
    int status = 0;
    ::waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) std::_Exit(3);
    if (::access(path.c_str(), F_OK) == 0) std::_Exit(4);
    std::optional<Iterator> validation = range(8).batch(4).iterate();
    for (Element& batch : *validation) static_cast<void>(batch);
    validation.reset();
    train.reset();
    std::exit(0);
  }
  int status = 0;
  ::waitpid(process, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  ASSERT_EQ(WEXITSTATUS(status), 0);
  const auto json = nlohmann::json::parse(test::read_file(path));
  ASSERT_EQ(json["runs"].size(), 2);
  EXPECT_EQ(json["runs"][0]["elements"], 8);
  EXPECT_EQ(json["runs"][1]["elements"], 64);
  EXPECT_EQ(json["runs"][1]["outcome"], "finished");
}

}  // namespace
}  // namespace penstock
