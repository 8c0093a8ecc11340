#include "towers/train_plan.h"

#include <algorithm>
#include <thread>

#include <penstock/error.h>

#include "towers/onednn.h"

namespace penstock::towers {

void check_options(const TrainOptions& options) {
  const auto refuse = [](const char* why) { throw Error(ErrorCode::invalid_argument, why); };
  if (options.devices.empty()) refuse("training needs a device for each tower");
  if (options.batch < 1) refuse("a batch must have at least one row");
  if (options.epochs < 1) refuse("training needs at least one epoch");
  // A tower that waits for a token would keep the others' batches back.
  if (options.strategy.kind == StrategyKind::sync_replicas &&
      options.feed.mode != FeedMode::per_tower)
    refuse("sync_replicas needs batches that any tower may take: feed per_tower");
  if (options.deterministic && (options.strategy.kind == StrategyKind::async ||
                                options.strategy.kind == StrategyKind::sync_replicas))
    refuse("towers that do not wait for each other are not deterministic");
  if (options.threads < 0) refuse("a tower can't compute on less than one thread");
  for (const DevicePtr& device : options.devices) {
    if (device->id().kind == DeviceKind::other)
      refuse("a network computes on host and cuda devices, and on no others");
    const bool gpu = computes_on_gpu(options, *device);
    if (!gpu && options.precision != Precision::f32)
      refuse("towers on host devices compute in f32; tf32 and bf16 are of cuda devices");
    if (options.strategy.kind == StrategyKind::model_parallel &&
        gpu != computes_on_gpu(options, *options.devices.front()))
      refuse("model_parallel divides a network among GPUs, or among host devices");
  }
}

bool computes_on_gpu(const TrainOptions& options, const Device& device) {
  return options.libraries != nullptr || device.id().kind == DeviceKind::cuda;
}

TrainOptions completed(TrainOptions options) {
  if (options.strategy.kind == StrategyKind::model_parallel) options.devices.resize(1);
  if (options.threads == 0)
    options.threads = options.deterministic
                          ? 1
                          : std::max(1, static_cast<int>(std::thread::hardware_concurrency() /
                                                         options.devices.size()));
  return options;
}

std::uint64_t steps_of(const Dataset& train, const TrainOptions& options) {
  const std::int64_t elements = train.cardinality();
  const auto together = options.batch * static_cast<std::int64_t>(options.devices.size());
  std::uint64_t steps = options.max_steps;
  if (elements < 0) return steps;
  std::int64_t each = elements / together;
  const std::int64_t left = elements % together;
  const bool one_more = options.feed.end == EpochEnd::pad || options.feed.end == EpochEnd::wrap ||
                        (options.feed.end == EpochEnd::stop &&
                         left >= static_cast<std::int64_t>(options.devices.size()));
  if (left > 0 && one_more) ++each;
  const std::uint64_t all = static_cast<std::uint64_t>(each) * options.epochs;
  return steps == 0 ? all : std::min(steps, all);
}

std::map<std::string, std::string> setting_of(const TrainOptions& options, std::uint64_t steps) {
  const StrategyOptions& strategy = options.strategy;
  std::map<std::string, std::string> all{
      {"seed", std::to_string(options.seed)},
      {"number of towers", std::to_string(options.devices.size())},
      {"batch", std::to_string(options.batch)},
      {"strategy", std::string(name_of(strategy.kind))},
      {"combination", strategy.combine == Combine::sum ? "sum" : "average"},
      {"optimizer", strategy.update.optimizer->describe()},
      {"schedule", strategy.update.schedule.describe()},
      {"clip norm", std::to_string(strategy.update.clip_norm)}};
  if (strategy.update.schedule.needs_total()) all["number of steps"] = std::to_string(steps);
  if (options.deterministic) {
    all["threads of a tower"] = std::to_string(options.threads);
    all["instructions"] = compute_instructions();
    all["device"] = options.devices.front()->name();
  }
  return all;
}

}  // namespace penstock::towers
