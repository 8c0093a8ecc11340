// An evaluator beside a run: what it finds, exports and skips.
#include "towers/evaluate/follower.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/log_capture.h"
#include "tests/support/time_limit.h"
#include "tests/towers/twins.h"
#include "towers/checkpoint/checkpoint.h"
#include "towers/checkpoint/run_folder.h"

namespace penstock::towers {
namespace follower_test {

using penstock::test::expect_error;
using penstock::test::read_file;
using penstock::test::TempFolder;
using penstock::test::TimeLimit;
using test::Hidden;
using test::Linear;
using test::maker;
using test::options_for;
using test::points;

constexpr std::int64_t kTestRows = 30;

/// Every `every` updates a checkpoint; all are kept unless `keep` says otherwise.
TrainOptions run_in(const std::string& folder, std::uint64_t steps, std::uint64_t every,
                    int keep = 1000) {
  TrainOptions options = options_for(2, 8);
  options.checkpoint_folder = folder;
  options.checkpoint_every = every;
  options.checkpoints_kept = keep;
  options.epochs = 100;
  options.max_steps = steps;
  options.strategy.update = {make_optimizer("adam"), Schedule::constant(0.02)};
  return options;
}

std::vector<Evaluation> train(TrainOptions options, bool evaluates = false) {
  struct Told final : TrainObserver {
    void on_evaluation(const Evaluation& one) override { all.push_back(one); }
    std::vector<Evaluation> all;
  } told;
  if (evaluates) options.evaluate_every = options.checkpoint_every;
  Trainer trainer(maker<Hidden>(), points(200).shuffle(),
                  evaluates ? std::optional(points(kTestRows)) : std::nullopt, options);
  const TrainResult result = trainer.run(told);
  write_finished(options.checkpoint_folder, {result.steps, options.epochs, options.max_steps});
  return told.all;
}

FollowerOptions follow(const std::string& folder) {
  FollowerOptions options;
  options.train = options_for(1, 8);
  options.train.checkpoint_folder = folder;
  options.follow.timeout_s = 30;
  return options;
}

FollowResult followed(const FollowerOptions& options) {
  FollowObserver nobody;
  return Follower(maker<Hidden>(), points(kTestRows), options).run(nobody);
}

std::vector<std::uint64_t> steps_in(const FollowResult& result) {
  std::vector<std::uint64_t> steps;
  for (const RecordedEvaluation& one : result.evaluations) steps.push_back(one.evaluation.step);
  return steps;
}

TEST(Follower, FindsWhatTheRunFindsItself) {
  const TimeLimit limit(60);
  const TempFolder folder;
  const std::vector<Evaluation> expected = train(run_in(folder.path(), 20, 5), true);
  const FollowResult result = followed(follow(folder.path()));
  ASSERT_EQ(expected.size(), 4U);
  ASSERT_EQ(result.evaluations.size(), 4U);
  EXPECT_EQ(result.made, 4U);
  EXPECT_FALSE(result.stopped);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(result.evaluations[i].evaluation.step, expected[i].step);
    EXPECT_NEAR(result.evaluations[i].evaluation.loss, expected[i].loss, 1e-6);
    EXPECT_EQ(result.evaluations[i].evaluation.accuracy, expected[i].accuracy);
    EXPECT_EQ(result.evaluations[i].evaluation.rows, kTestRows);
  }
  // A second one has nothing to do.
  const FollowResult again = followed(follow(folder.path()));
  EXPECT_EQ(again.made, 0U);
  EXPECT_EQ(steps_in(again), steps_in(result));
}

TEST(Follower, EvaluatesOnceBesideTraining) {
  const TimeLimit limit(60);
  const TempFolder folder;
  std::thread trains([&] { train(run_in(folder.path(), 60, 3, 1000)); });
  const FollowResult result = followed(follow(folder.path()));
  trains.join();
  std::vector<std::uint64_t> expected;
  for (std::uint64_t step = 3; step <= 60; step += 3) expected.push_back(step);
  EXPECT_EQ(steps_in(result), expected);
}

TEST(Follower, RemovedCheckpoint) {
  const TimeLimit limit(60);
  const TempFolder folder;
  // One is kept, and each step makes one: most are gone before they are read.
  std::thread trains([&] { train(run_in(folder.path(), 150, 1, 1)); });
  const FollowResult result = followed(follow(folder.path()));
  trains.join();
  const std::vector<std::uint64_t> steps = steps_in(result);
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(steps.back(), 150U);
  EXPECT_EQ(std::ranges::adjacent_find(steps, std::greater_equal()), steps.end())
      << testing::PrintToString(steps);
  EXPECT_EQ(checkpoint_files(folder.path()).size(), 1U);
}

TEST(Follower, WithAThrottleOnlyTheNewestAndTheLast) {
  const TimeLimit limit(60);
  const TempFolder folder;
  train(run_in(folder.path(), 20, 5));
  remove_finished(folder.path());
  FollowerOptions options = follow(folder.path());
  options.follow.throttle_s = 1000;
  Follower follower(maker<Hidden>(), points(kTestRows), options);
  struct Ends final : FollowObserver {
    void on_evaluation(const RecordedEvaluation& /*one*/, bool /*is_best*/) override {
      thread = std::jthread([this] { train(run_in(path, 30, 5)); });
    }
    std::string path;
    std::jthread thread;
  } ends;
  ends.path = folder.path();
  const FollowResult result = follower.run(ends);
  EXPECT_THAT(steps_in(result), testing::ElementsAre(20, 30));
}

TEST(Follower, OfDamagedCheckpointsOnlyTheLastIsAnError) {
  const TimeLimit limit(60);
  const TempFolder folder;
  train(run_in(folder.path(), 20, 5));
  const auto damage = [&](std::uint64_t step) {
    const std::string path = checkpoint_path(folder.path(), step);
    std::string bytes = read_file(path);
    bytes[bytes.size() / 2] ^= 1;
    std::ofstream(path, std::ios::binary) << bytes;
  };
  damage(10);
  EXPECT_THAT(steps_in(followed(follow(folder.path()))), testing::ElementsAre(5, 15, 20));
  std::filesystem::remove(folder / "evaluations.jsonl");
  damage(20);
  expect_error(ErrorCode::data_loss, "digest", [&] { followed(follow(folder.path())); });
}

TEST(Follower, ExportsTheBestAcrossRestarts) {
  const TimeLimit limit(60);
  const TempFolder folder;
  for (const Measure by : {Measure::loss, Measure::accuracy}) {
    const std::string kept = folder / (std::string("kept ") + std::string(name_of(by)));
    FollowerOptions options = follow(kept);
    options.best = folder / (std::string("best ") + std::string(name_of(by)));
    options.best_by = by;
    std::optional<double> best;
    std::string expected;
    for (const std::uint64_t until : {10, 20, 30}) {
      train(run_in(kept, until, 2));
      const FollowResult result = followed(options);
      for (const RecordedEvaluation& one : result.evaluations) {
        const double figure = by == Measure::loss ? -one.evaluation.loss : one.evaluation.accuracy;
        if (best && figure <= *best) continue;
        best = figure;
        expected = std::to_string(one.evaluation.step);
      }
      EXPECT_EQ(SafeTensors(read_file(options.best)).metadata().at("step"), expected);
    }
    // The same variables as in that checkpoint.
    const SafeTensors file(read_file(options.best));
    const SafeTensors run(read_file(checkpoint_path(kept, std::stoull(expected))));
    for (const NamedTensor& tensor : file.tensors())
      EXPECT_TRUE(std::ranges::equal(tensor.bytes, run.at(tensor.name).bytes)) << tensor.name;
  }
}

TEST(BestExport, RefusesAFileThatDoesNotSay) {
  const TempFolder folder;
  const std::string path = folder / "best";
  const VariableStore store(1, 0);
  const auto open = [&](Measure by, bool resume) { return BestExport(path, by, resume); };
  EXPECT_TRUE(open(Measure::loss, true).offer({10, 0.5, 0.25, 1}, store));
  BestExport best = open(Measure::loss, true);
  EXPECT_EQ(best.best(), 0.5);
  for (const double worse : {0.5, 0.6, std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity()})
    EXPECT_FALSE(best.offer({20, worse, 1, 1}, store)) << worse;
  EXPECT_TRUE(best.offer({20, 0.4, 1, 1}, store));
  expect_error(ErrorCode::invalid_argument, "best by loss, not by accuracy",
               [&] { open(Measure::accuracy, true); });
  EXPECT_EQ(open(Measure::accuracy, false).best(), std::nullopt) << "of a new run";
  export_variables(store, path);
  expect_error(ErrorCode::invalid_argument, "does not say", [&] { open(Measure::loss, true); });
  folder.write("best", "variables");
  expect_error(ErrorCode::invalid_argument, "not a file of variables",
               [&] { open(Measure::loss, true); });
}

TEST(Follower, GivesUpWhereNobodyTrains) {
  const TimeLimit limit(60);
  const TempFolder folder;
  FollowerOptions options = follow(folder / "kept");
  options.follow.timeout_s = 0.5;
  expect_error(ErrorCode::no_progress, "no new checkpoint", [&] { followed(options); });
  // While the folder is locked somebody does.
  const Checkpoints alive(folder / "kept");
  Follower follower(maker<Hidden>(), points(kTestRows), options);
  std::jthread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    follower.stop();
  });
  FollowObserver nobody;
  EXPECT_TRUE(follower.run(nobody).stopped);
}

TEST(Follower, EndOfAnotherRun) {
  const TimeLimit limit(60);
  const TempFolder folder;
  train(run_in(folder.path(), 10, 5));
  FollowerOptions options = follow(folder.path());
  options.max_steps = 20;
  options.follow.timeout_s = 0.5;
  expect_error(ErrorCode::no_progress, "no new checkpoint", [&] { followed(options); });
  options.max_steps = 10;
  options.epochs = 100;
  EXPECT_EQ(followed(options).evaluations.size(), 2U);
}

TEST(Follower, SecondFollowerAndOtherModel) {
  const TimeLimit limit(60);
  const TempFolder folder;
  train(run_in(folder.path(), 10, 5));
  {
    const EvaluationLog other(folder.path());
    expect_error(ErrorCode::unavailable, "one evaluator is enough",
                 [&] { followed(follow(folder.path())); });
  }
  FollowObserver nobody;
  expect_error(ErrorCode::invalid_argument, "variable fc/weights is not in the file", [&] {
    Follower(maker<Linear>(), points(kTestRows), follow(folder.path())).run(nobody);
  });
  folder.write("evaluations.jsonl", "{\"step\":1}\n");
  expect_error(ErrorCode::data_loss, "line 1", [&] { followed(follow(folder.path())); });
}

TEST(RunFolder, TellsTheEnd) {
  const TempFolder folder;
  EXPECT_EQ(read_finished(folder.path()), std::nullopt);
  write_finished(folder.path(), {120, 8, 0});
  EXPECT_EQ(read_finished(folder.path()), (Finished{120, 8, 0}));
  remove_finished(folder.path());
  remove_finished(folder.path());
  EXPECT_EQ(read_finished(folder.path()), std::nullopt);
  for (const char* damaged : {"", "{", "[]", "{\"step\":-1}", "{\"step\":1,\"epochs\":\"8\"}"}) {
    folder.write("finished", damaged);
    expect_error(ErrorCode::data_loss, "the file lacks", [&] { read_finished(folder.path()); });
  }
}

}  // namespace follower_test
}  // namespace penstock::towers
