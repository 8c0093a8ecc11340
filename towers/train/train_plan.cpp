#include "towers/train/train_plan.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <thread>
#include <utility>

#include <penstock/error.h>
#include <penstock/towers/peers.h>

#include "towers/batch_rows.h"
#include "towers/checkpoint/run_settings.h"
#include "towers/numbers.h"
#include "towers/onednn.h"
#include "towers/servers/served_job.h"
#include "towers/strategies/kinds.h"

namespace penstock::towers {

namespace {

template <typename Refuse>
void check_peers(const TrainOptions& options, Refuse refuse) {
  const StrategyKind kind = options.strategy.kind;
  if (kind != StrategyKind::replicated && kind != StrategyKind::parameter_device &&
      kind != StrategyKind::spread)
    refuse("several processes train together with replicated, parameter_device or spread only");
}

/// True if each update has a gradient of each tower.
bool waits_for_all(const TrainOptions& options) {
  const StrategyOptions& strategy = options.strategy;
  if (strategy.kind == StrategyKind::async) return false;
  return strategy.kind != StrategyKind::sync_replicas || strategy.aggregate == 0 ||
         strategy.aggregate == all_towers(options);
}

}  // namespace

void check_options(const TrainOptions& options) {
  const auto refuse = [](const char* why) { throw Error(ErrorCode::invalid_argument, why); };
  if (options.devices.empty()) refuse("training needs a device for each tower");
  if (options.batch < 1) refuse("a batch must have at least one row");
  if (options.epochs < 1) refuse("training needs at least one epoch");
  // A tower that waits for a token would delay the others' batches.
  if (options.strategy.kind == StrategyKind::sync_replicas &&
      options.feed.mode != FeedMode::per_tower)
    refuse("sync_replicas needs batches that any tower may take: feed per_tower");
  if (is_served(options.strategy)) {
    if (options.strategy.peers != nullptr)
      refuse("processes with parameter servers can't also exchange gradients");
    if (options.patience > 0) refuse("early stopping is not supported with parameter servers");
    if (options.feed.mode == FeedMode::split)
      refuse("towers with parameter servers need batches of their own: feed per_tower or sharded");
  }
  if (options.deterministic && !waits_for_all(options))
    refuse("towers that do not wait for each other are not deterministic");
  // A checkpoint has the variables of one tower.
  if (options.strategy.kind == StrategyKind::independent && options.devices.size() > 1 &&
      !options.checkpoint_folder.empty())
    refuse("independent towers have variables of their own each, and keep no checkpoints");
  if (options.virtual_towers < 0) refuse("there can't be less than one virtual tower");
  if (options.patience < 0) refuse("patience can't be less than one evaluation");
  if (options.threads < 0) refuse("a tower can't compute on less than one thread");
  if (options.strategy.peers != nullptr) check_peers(options, refuse);
  for (const DevicePtr& device : options.devices) {
    if (device->id().kind == DeviceKind::other)
      refuse("a network computes only on host and cuda devices");
    const bool gpu = computes_on_gpu(options, *device);
    if (!gpu && options.precision != Precision::f32)
      refuse("towers on host devices compute in f32; tf32 and bf16 need cuda devices");
    if (options.strategy.kind == StrategyKind::model_parallel &&
        gpu != computes_on_gpu(options, *options.devices.front()))
      refuse("model_parallel divides a network among GPUs or among host devices, not both");
  }
}

namespace {

/// True for strategies whose towers step together on the host, where they may take turns on a
/// device.
bool may_take_turns(const TrainOptions& options) {
  const StrategyKind kind = options.strategy.kind;
  return (kind == StrategyKind::replicated || kind == StrategyKind::parameter_device ||
          kind == StrategyKind::spread) &&
         std::ranges::none_of(options.devices, [&](const DevicePtr& device) {
           return computes_on_gpu(options, *device);
         });
}

/// Lists each device once for each of its virtual towers.
void divide_towers(TrainOptions& options, const KeptTowers& kept) {
  const int devices = all_towers(options);  // of all processes
  const bool may = may_take_turns(options);
  int towers = options.virtual_towers;
  if (towers == 0) {
    const bool others = options.batch != kept.batch && makes_steps_of(options, devices, kept);
    towers = may && kept.towers > 0 && !others ? kept.towers : devices;
  }
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::invalid_argument, std::to_string(towers) + " virtual towers " + why);
  };
  if (towers != devices && !may)
    refuse("on " + std::to_string(devices) +
           " devices: only replicated, parameter_device and spread on host devices support another "
           "number");
  if (towers < devices || towers % devices != 0) {
    if (options.virtual_towers == 0)
      throw Error(ErrorCode::invalid_argument,
                  "the checkpoint is from a run whose number of towers is " +
                      std::to_string(towers) + ", not " + std::to_string(devices) +
                      flags_of(kTowersSetting) +
                      "; another number resumes it only if it divides that of its towers, or if "
                      "towers divide batches (--feed split) with as many rows in an update",
                  {.shard = kept.file});
    refuse("can't be divided among " + std::to_string(devices) +
           " devices: the number of devices must divide the number of towers");
  }
  const std::size_t here = options.devices.size() * static_cast<std::size_t>(towers / devices);
  // Otherwise the towers of a process are not a branch of the tree over all towers.
  if (options.strategy.peers != nullptr && !std::has_single_bit(here))
    refuse("are " + std::to_string(here) +
           " for each process, which can have 1, 2, 4, 8, …: only those are a branch of the tree "
           "that adds up gradients");
  options.virtual_towers = towers;
  options.towers_in_turn = towers / devices;
  std::vector<DevicePtr> expanded;
  for (const DevicePtr& device : options.devices)
    expanded.insert(expanded.end(), static_cast<std::size_t>(options.towers_in_turn), device);
  options.devices = std::move(expanded);
}

}  // namespace

namespace {

/// Returns the number of this process, and the number of processes.
std::pair<int, int> place_of(const TrainOptions& options) {
  const StrategyOptions& strategy = options.strategy;
  if (strategy.peers != nullptr) return {strategy.peers->rank(), strategy.peers->size()};
  if (is_served(strategy)) return {strategy.served->process, strategy.served->processes};
  return {0, 1};
}

}  // namespace

int all_towers(const TrainOptions& options) {
  return static_cast<int>(options.devices.size()) * place_of(options).second;
}

int first_tower(const TrainOptions& options) {
  return place_of(options).first * static_cast<int>(options.devices.size());
}

bool computes_on_gpu(const TrainOptions& options, const Device& device) {
  return options.libraries != nullptr || device.id().kind == DeviceKind::cuda;
}

bool makes_steps_of(const TrainOptions& options, int towers, const KeptTowers& kept) {
  return options.feed.mode == FeedMode::split && options.feed.end != EpochEnd::stop &&
         kept.towers > 0 && options.batch * towers == kept.batch * kept.towers;
}

TrainOptions completed(TrainOptions options, const KeptTowers& kept) {
  if (options.strategy.kind == StrategyKind::model_parallel) options.devices.resize(1);
  // Evaluation uses tower 0, because towers differ.
  if (options.strategy.kind == StrategyKind::independent && !options.validation_device)
    options.validation_device = options.devices.front();
  if (options.threads == 0)
    options.threads = options.deterministic
                          ? 1
                          : std::max(1, static_cast<int>(std::thread::hardware_concurrency()) /
                                            (static_cast<int>(options.devices.size()) *
                                             std::max(1, options.processes_here)));
  divide_towers(options, kept);
  return options;
}

Dataset batches_to_train(const Dataset& train, const TrainOptions& options) {
  const bool divided = options.feed.mode == FeedMode::split;
  return batch_rows(train, divided ? options.batch * all_towers(options) : options.batch);
}

std::uint64_t batches_of_tower(const Dataset& train, const TrainOptions& options) {
  const std::int64_t elements = train.cardinality();
  if (elements < 0) return 0;
  const auto together = options.batch * all_towers(options);
  std::int64_t each = elements / together;
  const std::int64_t left = elements % together;
  const bool one_more = options.feed.end == EpochEnd::pad || options.feed.end == EpochEnd::wrap ||
                        (options.feed.end == EpochEnd::stop && left >= all_towers(options));
  if (left > 0 && one_more) ++each;
  return static_cast<std::uint64_t>(each) * options.epochs;
}

std::uint64_t steps_of(const Dataset& train, const TrainOptions& options) {
  const std::uint64_t steps = options.max_steps;
  if (train.cardinality() < 0) return steps;
  std::uint64_t all = batches_of_tower(train, options);
  if (is_served(options.strategy)) {  // an update for each gradient, or for several
    const auto towers = static_cast<std::uint64_t>(all_towers(options));
    const bool async = options.strategy.kind == StrategyKind::async;
    const auto aggregate = static_cast<std::uint64_t>(std::max(0, options.strategy.aggregate));
    all = async ? all * towers : all * towers / (aggregate > 0 ? aggregate : towers);
  }
  return steps == 0 ? all : std::min(steps, all);
}

TrainOptions planned(const Dataset& train, TrainOptions options, const KeptTowers& kept) {
  options = completed(std::move(options), kept);
  const std::uint64_t steps = steps_of(train, options);
  if (steps == 0 && train.cardinality() >= 0)
    throw Error(ErrorCode::invalid_argument,
                std::to_string(train.cardinality()) + " records are fewer than a batch of " +
                    std::to_string(options.batch) +
                    (all_towers(options) > 1 ? " for each tower" : ""));
  Schedule& schedule = options.strategy.update.schedule;
  if (steps == 0 && schedule.needs_total())
    throw Error(ErrorCode::invalid_argument,
                "schedule " + schedule.describe() +
                    " needs the number of steps, which these data do not tell without max_steps");
  schedule = schedule.over(steps);
  return options;
}

}  // namespace penstock::towers
