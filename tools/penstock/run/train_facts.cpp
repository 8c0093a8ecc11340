#include "tools/penstock/run/train_facts.h"

#include <string>

#include <penstock/version.h>

#include "towers/numbers.h"
#include "towers/onednn.h"

namespace penstock::tool {
namespace {

const char* name_of(towers::Precision precision) noexcept {
  switch (precision) {
    case towers::Precision::f32:
      return "f32";
    case towers::Precision::tf32:
      return "tf32";
    case towers::Precision::bf16:
      return "bf16";
  }
  return "none";
}

const char* name_of(FeedMode mode) noexcept {
  switch (mode) {
    case FeedMode::split:
      return "split";
    case FeedMode::per_tower:
      return "per_tower";
    case FeedMode::sharded:
      return "sharded";
  }
  return "none";
}

const char* name_of(EpochEnd end) noexcept {
  switch (end) {
    case EpochEnd::drop:
      return "drop";
    case EpochEnd::pad:
      return "pad";
    case EpochEnd::wrap:
      return "wrap";
    case EpochEnd::stop:
      return "stop";
  }
  return "none";
}

}  // namespace

cluster::Facts facts_of(const towers::TrainOptions& options) {
  const towers::StrategyOptions& strategy = options.strategy;
  // Without a number, it depends on the machine, and so would the bits of the result.
  const int threads = options.deterministic && options.threads == 0 ? 1 : options.threads;
  return {{"version", version()},
          {"initial variables", options.initial_variables.empty() ? "drawn" : "given"},
          {"tower threads", threads == 0 ? "all" : std::to_string(threads)},
          {"precision", name_of(options.precision)},
          {"aggregate", std::to_string(strategy.aggregate)},
          {"towers", std::to_string(options.devices.size())},
          {"virtual towers", std::to_string(options.virtual_towers)},
          {"batch", std::to_string(options.batch)},
          {"epochs", std::to_string(options.epochs)},
          {"max steps", std::to_string(options.max_steps)},
          {"seed", std::to_string(options.seed)},
          {"feed", std::string(name_of(options.feed.mode)) + ", " + name_of(options.feed.end)},
          {"bucket", std::to_string(strategy.bucket_bytes)},
          {"optimizer", strategy.update.optimizer->describe()},
          {"schedule", strategy.update.schedule.describe()},
          {"clip norm", towers::exact_text(strategy.update.clip_norm)},
          {"on divergence", strategy.update.stop_if_diverged ? "stop" : "continue"},
          {"checkpoint every", std::to_string(options.checkpoint_every)},
          {"evaluate every", std::to_string(options.evaluate_every)},
          {"deterministic", options.deterministic ? "yes" : "no"},
          {"instructions", options.deterministic ? towers::compute_instructions() : "any"}};
}

}  // namespace penstock::tool
