// What a run that resumes from a checkpoint must have the same, and what it may change.
#include <filesystem>
#include <functional>
#include <limits>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/log_capture.h"
#include "tests/towers/twins.h"
#include "towers/checkpoint/checkpoint.h"
#include "towers/checkpoint/run_folder.h"

namespace penstock::towers {
namespace resume_test {

using penstock::test::expect_error;
using penstock::test::read_file;
using penstock::test::TempFolder;
using test::Hidden;
using test::maker;
using test::options_in;
using test::points;
using test::train;

TrainObserver nobody;

TEST(GoingOn, AllDigitsOfNumbers) {
  const TempFolder folder;
  train(options_in(folder.path(), 5));
  const auto with = [&](const char* optimizer, float clip_norm) {
    TrainOptions options = options_in(folder.path(), 10);
    options.strategy.update.optimizer = make_optimizer(optimizer);
    options.strategy.update.clip_norm = clip_norm;
    return train(options);
  };
  expect_error(ErrorCode::invalid_argument,
               "whose optimizer is adam:0.9:0.999:1e-08, not adam:0.9:0.999:1e-07",
               [&] { with("adam:0.9:0.999:1e-7", 0); });
  expect_error(ErrorCode::invalid_argument, "not adam:0.9:0.9990000001:1e-08",
               [&] { with("adam:0.9:0.9990000001", 0); });
  expect_error(ErrorCode::invalid_argument, "whose clip norm is 0, not 1e-08",
               [&] { with("adam", 1e-8F); });
  EXPECT_EQ(with("adam:0.90:0.9990:0.00000001", 0).resumed_at, 5U);
}

/// The checkpoint of step 5 with other metadata, and the digest of it that is right.
void rewrite(const TempFolder& folder,
             const std::function<void(std::map<std::string, std::string>&)>& change) {
  const std::string name = "step-000000000005.safetensors";
  const SafeTensors file(read_file(folder / name));
  std::map<std::string, std::string> metadata = file.metadata();
  change(metadata);
  metadata["digest"] = digest_of(file.tensors(), metadata);
  folder.write(name, encode_safetensors(file.tensors(), metadata));
}

TEST(GoingOn, OfVersionsBeforeAreRead) {
  const TempFolder folder;
  train(options_in(folder.path(), 5));
  rewrite(folder, [](auto& metadata) {
    metadata.erase("exact settings");
    metadata.at("setting optimizer") = "adam:0.900000:0.999000:0.000000";
    metadata.at("setting schedule") = "constant:0.010000";
    metadata.at("setting clip norm") = "0.000000";
  });
  EXPECT_EQ(train(options_in(folder.path(), 10)).resumed_at, 5U);
  EXPECT_EQ(train(options_in(folder.path(), 10)).digest, train(options_in("", 10)).digest);
}

TEST(GoingOn, OfFormatsToComeAreRefusedAndLeftAlone) {
  const TempFolder folder;
  train(options_in(folder.path(), 5));
  rewrite(folder, [](auto& metadata) { metadata["format"] = "penstock training 2"; });
  expect_error(ErrorCode::invalid_argument, "it is of format 2, which another version",
               [&] { train(options_in(folder.path(), 10)); });
  EXPECT_EQ(checkpoint_files(folder.path()).size(), 1U);
}

TEST(GoingOn, LongerRunWithASchedule) {
  const TempFolder folder;
  const auto run = [&](std::uint64_t max_steps) {
    TrainOptions options = options_in(folder.path(), max_steps);
    options.strategy.update.schedule = Schedule::parse("cosine:0.02");
    struct Rates : TrainObserver {
      void on_step(const StepReport& report) override { last = report; }
      StepReport last{};
    } rates;
    Trainer trainer(maker<Hidden>(), points(200).shuffle(), std::nullopt, options);
    const TrainResult result = trainer.run(rates);
    return std::pair(result, rates.last);
  };
  EXPECT_EQ(run(10).first.steps, 10U);
  const penstock::test::LogCapture log;
  const auto [result, last] = run(30);
  EXPECT_EQ(log.count("cosine:0.02 now spans 30 steps; before, it spanned 10"), 1U);
  EXPECT_EQ(result.resumed_at, 10U);
  EXPECT_EQ(result.steps, 30U);
  EXPECT_EQ(last.step, 29U);
  EXPECT_EQ(last.rate, Schedule::parse("cosine:0.02").over(30).at(29));
  EXPECT_EQ(run(30).first.steps, 30U);
  EXPECT_EQ(log.count("now spans"), 1U) << "a run of the same length says nothing";
}

TEST(GoingOn, StepsOfOtherTowers) {
  const auto run = [](const std::string& folder, int towers, std::int64_t batch,
                      std::uint64_t steps) {
    TrainOptions options = options_in(folder, steps);
    options.devices.resize(1);
    for (int t = 1; t < towers; ++t) options.devices.push_back(options.devices.front());
    options.batch = batch;
    options.feed.mode = FeedMode::split;
    return train(options);
  };
  const std::vector<float> whole = run("", 2, 8, 20).losses;
  const TempFolder folder;
  run(folder.path(), 2, 8, 5);
  const penstock::test::LogCapture log;
  std::size_t at = 5;
  struct Part {
    int towers;
    std::int64_t batch;
    std::uint64_t steps;
  };
  for (const Part& part : {Part{4, 4, 10}, Part{1, 16, 15}, Part{2, 8, 20}}) {
    const TrainResult result = run(folder.path(), part.towers, part.batch, part.steps);
    EXPECT_EQ(result.resumed_at, at);
    for (const float loss : result.losses) EXPECT_NEAR(loss, whole.at(at++), 1e-5F) << at;
  }
  EXPECT_EQ(at, 20U);
  EXPECT_EQ(log.count("4 towers of 4 rows resume where 2 towers of 8 rows stopped"), 1U);
  expect_error(ErrorCode::invalid_argument, "whose number of towers is 2, not 4 (--device)",
               [&] { run(folder.path(), 4, 8, 25); });
  TrainOptions options = options_in(folder.path(), 25);
  options.feed.mode = FeedMode::split;
  options.virtual_towers = 4;
  expect_error(ErrorCode::invalid_argument,
               "with as many rows in an update as 2 towers of 8 rows, not 4 towers of 8 rows",
               [&] { train(options); });
}

/// Steps that are fine, the last of which leaves variables that are none.
class Burst final : public Classifier {
 public:
  explicit Burst(const Scope& scope)
      : weights_(scope.get("fc/weights", {3, 4}, {Initializer::normal(0.3F)})) {}
  Loss forward(const Batch& batch, const Pass& pass) override {
    step_ = pass.step;
    return {1.0 * static_cast<double>(batch.rows()), 0, 0, batch.valid_rows()};
  }
  void backward(const Pass& /*pass*/) override {
    const float keep = weights_.accumulate();
    for (float& value : weights_.gradient.values())
      value = keep * value + (step_ == 4 ? std::numeric_limits<float>::infinity() : 0.01F);
    weights_.added();
  }

 private:
  Variable& weights_;
  std::uint64_t step_ = 0;
};

TEST(GoingOn, KeepNoVariablesThatAreNoNumbers) {
  for (const float clip_norm : {0.0F, 1.0F}) {
    const TempFolder folder;
    TrainOptions options = options_in(folder.path(), 5);
    options.checkpoint_every = 2;
    options.strategy.update.clip_norm = clip_norm;
    const std::string text = clip_norm > 0
                                 ? "the norm of the gradients is not a number at step 4"
                                 : "fc/weights has values that are not numbers after step 5";
    expect_error(ErrorCode::diverged, text, [&] {
      Trainer trainer(maker<Burst>(), points(200), std::nullopt, options);
      trainer.run(nobody);
    });
    EXPECT_EQ(checkpoint_files(folder.path()).back().step, 4U);
    // A run that continues keeps none of the later steps either.
    options.max_steps = 9;
    options.strategy.update.stop_if_diverged = false;
    Trainer trainer(maker<Burst>(), points(200), std::nullopt, options);
    EXPECT_EQ(trainer.run(nobody).steps, 9U);
    EXPECT_EQ(checkpoint_files(folder.path()).back().step, 4U);
  }
}

}  // namespace resume_test
}  // namespace penstock::towers
