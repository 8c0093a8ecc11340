#include "towers/evaluate/evaluator.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include <penstock/error.h>
#include <penstock/internal/start_thread.h>

#include "towers/batch_rows.h"
#include "towers/evaluate/class_metrics.h"
#include "towers/gpu/gpu.h"
#include "towers/gpu/late_loss.h"

namespace penstock::towers {
namespace {

FeedOptions feed_of(const TrainOptions& options, bool ragged) {
  FeedOptions feed = options.feed;
  feed.run.seed = options.seed;
  feed.mode = FeedMode::per_tower;
  feed.end = ragged ? EpochEnd::stop : EpochEnd::pad;
  feed.in_turn = true;
  feed.run.epochs = UINT64_MAX;
  return feed;
}

/// Ragged batches are not padded, so only a single tower receives all of them.
std::vector<DevicePtr> evaluated_on(const std::vector<DevicePtr>& devices, bool ragged) {
  return ragged ? std::vector{devices.front()} : devices;
}

TrainOptions alone(TrainOptions options) {
  options.devices = {options.validation_device};
  options.on_device.reset();  // of the training data
  options.virtual_towers = options.towers_in_turn = 1;
  return options;
}

/// The result of one tower.
struct Found {
  /// Looks at the last batch of `forward`.
  void look_at(Model& model, const Batch& batch, const Pass& pass) {
    const std::int64_t rows = batch.valid_rows();
    Array weights;
    if (const float* values = batch.weights())
      weights = on_host(pass.gpu, Array::view(values, {batch.rows()}));
    for (std::int64_t row = 0; row < rows; ++row)
      weight += weights.empty() ? 1 : weights.data()[row];
    if (!batch.has("label")) return;
    const Array scores = model.scores(pass);
    if (scores.empty() || scores.dim(1) < 2) return;  // no classes
    const std::span<const std::int64_t> labels = batch.i64("label");
    const Array view = Array::view(const_cast<std::int64_t*>(labels.data()),  // NOLINT: is read
                                   DType::i64, {static_cast<std::int64_t>(labels.size())});
    const Array copy = pass.gpu != nullptr ? pass.gpu->download(view) : Array();
    metrics.add(scores, {copy.empty() ? labels.data() : copy.as<std::int64_t>(), labels.size()},
                weights.values(), rows);
  }

  Loss loss;
  double weight = 0;  // of all rows
  ClassMetrics metrics;
};

}  // namespace

Evaluator::Evaluator(TowerSet& towers, const Dataset& test, const TrainOptions& options)
    : towers_(towers),
      feed_(batch_rows(test, options.batch), evaluated_on(options.devices, is_ragged(test.spec())),
            feed_of(options, is_ragged(test.spec()))) {}

Evaluation Evaluator::evaluate(std::uint64_t step) {
  std::vector<Found> parts(static_cast<std::size_t>(towers_.size()));
  const auto body = [&](int tower) {
    if (tower >= feed_.towers()) return;
    Found& part = parts[static_cast<std::size_t>(tower)];
    const auto add = [&part](const Loss& loss) {
      part.loss.sum += loss.sum;
      part.loss.correct += loss.correct;
      part.loss.rows += loss.rows;
    };
    std::optional<LateLoss> late;
    if (towers_.gpu(tower) != nullptr) late.emplace(towers_.store().gpus(tower));
    while (std::optional<StagedBatch> batch = feed_.next(tower)) {
      towers_.take(*batch, tower);
      const std::unique_lock turn = towers_.turn(tower);
      const Pass pass = towers_.pass(tower, *batch, false, 0, FeedMode::per_tower);
      if (late) late->begin();
      const Batch rows(*batch);
      const Loss loss = towers_.model(tower).forward(rows, pass);
      if (!late) {
        add(loss);
      } else if (const auto told = late->end(step, loss.rows)) {
        add(told->loss);
      }
      part.look_at(towers_.model(tower), rows, pass);
      batch->release(towers_.stream(tower));
    }
    if (late)
      if (const auto told = late->last()) add(told->loss);
  };
  towers_.run(body, [this](const Status& /*error*/) { feed_.cancel(); });
  Found total;
  for (const Found& part : parts) {
    total.loss.sum += part.loss.sum;
    total.loss.correct += part.loss.correct;
    total.loss.rows += part.loss.rows;
    total.weight += part.weight;
    total.metrics.add(part.metrics);
  }
  const auto rows = static_cast<double>(std::max<std::int64_t>(1, total.loss.rows));
  Evaluation found{step, total.loss.sum / (total.loss.rows > 0 ? total.weight : 1),
                   static_cast<double>(total.loss.correct) / rows, total.loss.rows};
  if (!total.metrics.empty()) total.metrics.tell(found);
  return found;
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
