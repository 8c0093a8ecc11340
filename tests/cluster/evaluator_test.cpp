// `penstock train --role evaluator` as a user runs it: beside a run, killed at any moment, and by
// TF_CONFIG.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cluster/free_address.h"
#include "tests/cluster/train_ranks.h"
#include "tests/support/program.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace {

using test::Outcome;
using test::Program;
using test::read_file;
using test::TempFolder;
using test::TimeLimit;
using test::write_cifar;
using testing::HasSubstr;
using Words = std::vector<std::string>;

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// What all processes of a run are told, as a job's script would.
Words run_of(const std::string& data, const std::string& kept, const Words& more = {}) {
  return with({"train", "--model", "cifar10", "--data", data, "--eval-data", data, "--batch", "4",
               "--schedule", "constant:0.01", "--quiet", "--tower-threads", "1", "--checkpoint",
               kept, "--epochs", "1000"},
              more);
}

std::vector<nlohmann::json> evaluations_in(const std::string& kept) {
  std::vector<nlohmann::json> all;
  std::istringstream lines(read_file(kept + "/evaluations.jsonl"));
  for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
  return all;
}

std::vector<int> steps_of(const std::vector<nlohmann::json>& evaluations) {
  std::vector<int> steps;
  for (const nlohmann::json& one : evaluations) steps.push_back(one["step"].get<int>());
  return steps;
}

TEST(Evaluator, KilledAtAnyMomentEvaluatesEachCheckpointOnce) {
  const TimeLimit limit(110);
  const TempFolder folder;
  const std::string data = write_cifar(folder, 40);
  const std::string kept = folder / "kept";
  const Words all = run_of(data, kept, {"--max-steps", "40", "--checkpoint-every", "2"});
  const Words evaluator = with(all, {"--role", "evaluator", "--json", "-", "--tensorboard",
                                     folder / "events", "--export-best", folder / "best"});
  Program chief(with(all, {"--keep", "1000"}));
  Rng rng(19, 0, 0);
  int killed = 0;
  for (; killed < 20; ++killed) {
    Program one(evaluator);
    std::this_thread::sleep_for(std::chrono::milliseconds(40 + rng.below(600)));
    ASSERT_FALSE(one.ended() && killed < 3) << one.written_to_stderr();
    one.signal(SIGKILL);
  }
  const Outcome trained = chief.wait(90);
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Outcome last = Program(evaluator).wait(90);
  ASSERT_EQ(last.code, 0) << last.err;
  std::vector<int> expected;
  for (int step = 2; step <= 40; step += 2) expected.push_back(step);
  const auto found = evaluations_in(kept);
  EXPECT_EQ(steps_of(found), expected);
  EXPECT_EQ(last.json()["evaluations"].size(), expected.size());
  // So do the events, whatever was half written, and the best is the best of all.
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(folder / "events/eval"))
    files.push_back(file.path());
  ASSERT_EQ(files.size(), 1U);
  const std::string records = folder.write("events.tfrecord", read_file(files[0]));
  EXPECT_THAT(test::run_program({"verify", records}).out, HasSubstr("21 good, 0 bad"));
  const auto best = std::ranges::min_element(
      found, {}, [](const nlohmann::json& one) { return one["loss"].get<double>(); });
  EXPECT_THAT(read_file(folder / "best"),
              HasSubstr("\"step\":\"" + std::to_string((*best)["step"].get<int>()) + "\""));
}

/// A process of a job of a chief, a worker and an evaluator.
std::unique_ptr<Program> task(const Words& words, const std::string& cluster,
                              const std::string& type) {
  return std::make_unique<Program>(words, "",
                                   Words{"TF_CONFIG={\"cluster\":{" + cluster +
                                         "},\"task\":{\"type\":\"" + type + "\",\"index\":0}}"});
}

TEST(Evaluator, StandsInsideOrOutsideOfTheCluster) {
  const TimeLimit limit(110);
  for (const bool inside : {true, false}) {
    const TempFolder folder;
    const std::string kept = folder / "kept";
    const Words words = run_of(write_cifar(folder, 40), kept,
                               {"--max-steps", "12", "--checkpoint-every", "3", "--json", "-",
                                "--export-best", folder / "best"});
    std::string cluster = R"("chief":[")" + test::free_address() + R"("],"worker":[")" +
                          test::free_address() + R"("])";
    if (inside) cluster += R"(,"evaluator":[")" + test::free_address() + R"("])";
    Words mine = words;
    // Who is not listed is not known: each writes a file of its own.
    if (!inside) *(std::ranges::find(mine, "--export-best") + 1) = folder / "evaluator's best";
    auto evaluator = task(mine, cluster, "evaluator");
    auto chief = task(words, cluster, "chief");
    auto worker = task(words, cluster, "worker");
    const Outcome trained = chief->wait(60);
    ASSERT_EQ(trained.code, 0) << trained.err;
    EXPECT_EQ(worker->wait(30).code, 0);
    const Outcome evaluated = evaluator->wait(30);
    ASSERT_EQ(evaluated.code, 0) << evaluated.err;
    EXPECT_EQ(steps_of(evaluations_in(kept)).back(), 12);
    EXPECT_EQ(evaluated.json()["finished"], true);
    EXPECT_EQ(trained.json()["test_loss"].is_null(), inside) << "nobody evaluates twice";
    if (inside) continue;
    EXPECT_NEAR(trained.json()["test_loss"].get<double>(),
                evaluated.json()["evaluations"].back()["loss"].get<double>(), 1e-5);
  }
}

TEST(Evaluator, KilledEvaluator) {
  const TimeLimit limit(110);
  const TempFolder folder;
  const std::string kept = folder / "kept";
  const Words words = run_of(write_cifar(folder, 40), kept,
                             {"--max-steps", "30", "--checkpoint-every", "3", "--json", "-"});
  const Words chief_alone{"--cluster", "chief=127.0.0.1:1;evaluator=127.0.0.1:2", "--role",
                          "chief"};
  Program evaluator(with(words, {"--role", "evaluator"}));
  Program chief(with(words, chief_alone));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  evaluator.signal(SIGKILL);
  const Outcome trained = chief.wait(60);
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(Program(with(words, {"--role", "evaluator"})).wait(60).code, 0);
  EXPECT_EQ(steps_of(evaluations_in(kept)).back(), 30);
}

TEST(Evaluator, GoesOnWithARunThatGoesOn) {
  const TimeLimit limit(110);
  const TempFolder folder;
  const std::string data = write_cifar(folder, 40);
  const std::string kept = folder / "kept";
  for (const std::string until : {"6", "12"}) {
    const Words words = run_of(data, kept, {"--max-steps", until, "--checkpoint-every", "3"});
    // It comes up first: the end of the run before is not that of this one.
    Program evaluator(with(words, {"--role", "evaluator"}));
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    EXPECT_FALSE(evaluator.ended()) << evaluator.written_to_stderr();
    const Outcome trained = Program(words).wait(60);
    EXPECT_EQ(trained.code, 0) << trained.err;
    const Outcome evaluated = evaluator.wait(60);
    EXPECT_EQ(evaluated.code, 0) << evaluated.err;
    EXPECT_EQ(std::to_string(steps_of(evaluations_in(kept)).back()), until);
  }
}

TEST(Evaluator, StoppedRun) {
  const TimeLimit limit(110);
  const TempFolder folder;
  const std::string kept = folder / "kept";
  const Words words = run_of(write_cifar(folder, 40), kept, {"--checkpoint-every", "2"});
  std::vector<std::unique_ptr<Program>> chief;
  chief.push_back(std::make_unique<Program>(words));
  test::wait_for_steps(chief, kept);
  chief[0]->signal(SIGTERM);
  const Outcome stopped = chief[0]->wait(60);
  EXPECT_EQ(stopped.code, 0) << stopped.err;
  EXPECT_FALSE(std::filesystem::exists(kept + "/finished")) << "it was stopped";
  const Words evaluator =
      with(words, {"--role", "evaluator", "--eval-timeout", "1", "--device", "host:0,host:1"});
  const Outcome gave_up = Program(evaluator).wait(60);
  EXPECT_EQ(gave_up.code, 75) << gave_up.err;
  EXPECT_THAT(gave_up.err, HasSubstr("no process seems to train"));
  // A SIGTERM ends it, and what was found stays.
  Program waits(with(words, {"--role", "evaluator", "--tensorboard", folder / "events"}));
  for (int tries = 0; tries < 3000 && !std::filesystem::exists(folder / "events/eval"); ++tries)
    usleep(10'000);
  waits.signal(SIGTERM);
  const Outcome ended = waits.wait(30);
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_FALSE(evaluations_in(kept).empty());
}

TEST(Evaluator, SaysWhatItNeeds) {
  const TimeLimit limit(60);
  const TempFolder folder;
  const std::string data = write_cifar(folder, 10);
  const Words base{"train", "--model", "cifar10"};
  const std::vector<std::pair<Words, std::string>> table{
      {{"--role", "evaluator", "--checkpoint", folder.path()}, "--eval-data"},
      {{"--role", "evaluator", "--eval-data", data}, "--checkpoint"},
      {{}, "--data"},
      {{"--data", data, "--keep", "0", "--checkpoint", folder.path()}, "--keep"},
      {{"--data", data, "--keep", "3"}, "--checkpoint"},
      {{"--data", data, "--export-best", folder / "b"}, "--eval-data"},
      {{"--role", "evaluator", "--eval-throttle", "-1"}, "--eval-throttle"},
      {{"--role", "evaluator", "--eval-timeout", "0"}, "--eval-timeout"},
  };
  for (const auto& [flags, text] : table) {
    const Outcome refused = Program(with(base, flags)).wait(30);
    EXPECT_EQ(refused.code, 2) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(text));
  }
}

}  // namespace
}  // namespace penstock
