#include "towers/evaluator.h"

#include <algorithm>
#include <utility>

#include <penstock/error.h>

#include "towers/gpu/late_loss.h"
#include "towers/start_thread.h"

namespace penstock::towers {
namespace {

FeedOptions feed_of(const TrainOptions& options) {
  FeedOptions feed = options.feed;
  feed.run.seed = options.seed;
  feed.mode = FeedMode::per_tower;
  feed.end = EpochEnd::pad;
  feed.in_turn = true;
  feed.run.epochs = UINT64_MAX;
  return feed;
}

TrainOptions alone(TrainOptions options) {
  options.devices = {options.validation_device};
  return options;
}

}  // namespace

Evaluator::Evaluator(TowerSet& towers, const Dataset& test, const TrainOptions& options)
    : towers_(towers), feed_(test.batch(options.batch), options.devices, feed_of(options)) {}

Evaluation Evaluator::evaluate(std::uint64_t step) {
  std::vector<Loss> parts(static_cast<std::size_t>(towers_.size()));
  const auto body = [&](int tower) {
    Loss& part = parts[static_cast<std::size_t>(tower)];
    const auto add = [&part](const Loss& loss) {
      part.sum += loss.sum;
      part.correct += loss.correct;
      part.rows += loss.rows;
    };
    std::optional<LateLoss> late;
    if (towers_.gpu(tower) != nullptr) late.emplace(towers_.store().gpus(tower));
    while (std::optional<StagedBatch> batch = feed_.next(tower)) {
      towers_.take(*batch, tower);
      const Pass pass = towers_.pass(tower, *batch, false, 0, FeedMode::per_tower);
      if (late) late->begin();
      const Loss loss = towers_.model(tower).forward(Batch(*batch), pass);
      if (!late) {
        add(loss);
      } else if (const auto told = late->end(step, loss.rows)) {
        add(told->loss);
      }
      batch->release(towers_.stream(tower));
    }
    if (late)
      if (const auto told = late->last()) add(told->loss);
  };
  towers_.run(body, [this](const Status& /*error*/) { feed_.cancel(); });
  Loss total;
  for (const Loss& part : parts) {
    total.sum += part.sum;
    total.correct += part.correct;
    total.rows += part.rows;
  }
  const auto rows = static_cast<double>(std::max<std::int64_t>(1, total.rows));
  return {step, total.sum / rows, static_cast<double>(total.correct) / rows, total.rows};
}

ValidationTower::ValidationTower(const ModelMaker& make, const Dataset& test,
                                 const TrainOptions& options)
    : towers_(make, alone(options), {}), evaluator_(towers_, test, alone(options)) {}

ValidationTower::~ValidationTower() {
  evaluator_.cancel();
  if (thread_.joinable()) thread_.join();
}

void ValidationTower::begin(VariableStore& from, std::uint64_t step) {
  for (std::size_t v = 0; v < from.of(0).size(); ++v) {
    Variable& to = *towers_.store().of(0)[v];
    assign(to.gpu, on_host(from.of(0)[v]->gpu, from.of(0)[v]->value).values(), to.value);
  }
  thread_ = start_thread("validation", [this, step] {
    try {
      result_ = evaluator_.evaluate(step);
    } catch (...) {
      error_ = status_from_current_exception();
    }
  });
}

Evaluation ValidationTower::take() {
  thread_.join();
  if (!error_.ok()) {
    const Error& error = error_.error();
    throw Error(error.code(), "validation " + error.cause(), error.where(), error.original());
  }
  return *std::exchange(result_, std::nullopt);
}

}  // namespace penstock::towers
