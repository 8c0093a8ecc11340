#include "towers/checkpoint/run_settings.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include <penstock/error.h>

#include "towers/numbers.h"
#include "towers/onednn.h"
#include "towers/servers/served_job.h"
#include "towers/strategies/kinds.h"
#include "towers/train/train_plan.h"

namespace penstock::towers {
namespace {

/// "adam:0.9:0.999:1e-08" as files say it whose settings are not exact.
std::string with_six_digits(const std::string& text) {
  std::string rounded;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(':', at), text.size());
    const std::string part = text.substr(at, end - at);
    double value = 0;
    const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    const bool number = error == std::errc() && stop == part.data() + part.size();
    rounded += (at > 0 ? ":" : "") + (number ? std::to_string(value) : part);
    at = end + 1;
  }
  return rounded;
}

/// True for settings that checkpoints of earlier builds lack.
bool may_lack(const std::string& setting) {
  return setting == kModelSetting || setting == kFeedSetting || setting == kEndSetting;
}

}  // namespace

std::string flags_of(const std::string& setting) {
  constexpr std::pair<std::string_view, const char*> kFlags[] = {
      {"seed", "--seed"},
      {kTowersSetting, "--device"},
      {kBatchSetting, "--batch"},
      {kModelSetting, "--model"},
      {kFeedSetting, "--feed"},
      {kEndSetting, "--epoch-end"},
      {"strategy", "--strategy"},
      {"combination", "--combine"},
      {"optimizer", "--optimizer"},
      {"schedule", "--schedule"},
      {"clip norm", "--clip-norm"},
      {kWeightsSetting, "--class-weights"},
      {"gradients for an update", "--aggregate"},
      {"largest staleness", "--max-staleness"},
      {"threads of a tower", "--tower-threads"},
      {"device", "--device"}};
  for (const auto& [name, flag] : kFlags)
    if (name == setting) return std::string(" (") + flag + ")";
  return {};
}

std::map<std::string, std::string> setting_of(const TrainOptions& options, std::uint64_t steps) {
  constexpr const char* kModes[] = {"split", "per_tower", "sharded"};
  constexpr const char* kEnds[] = {"drop", "pad", "wrap", "stop"};
  const StrategyOptions& strategy = options.strategy;
  std::map<std::string, std::string> all{
      {"seed", std::to_string(options.seed)},
      {kTowersSetting, std::to_string(all_towers(options))},
      {kBatchSetting, std::to_string(options.batch)},
      {kFeedSetting, kModes[static_cast<std::size_t>(options.feed.mode)]},
      {kEndSetting, kEnds[static_cast<std::size_t>(options.feed.end)]},
      {"strategy", std::string(name_of(strategy.kind))},
      {"combination", strategy.combine == Combine::sum ? "sum" : "average"},
      {"optimizer", strategy.update.optimizer->describe()},
      {"schedule", strategy.update.schedule.describe()},
      {"clip norm", exact_text(strategy.update.clip_norm)}};
  if (strategy.update.schedule.needs_total()) all[kStepsSetting] = std::to_string(steps);
  if (!options.model.empty()) all[kModelSetting] = options.model;
  if (!options.class_weights.empty()) all[kWeightsSetting] = text_of_weights(options.class_weights);
  if (is_served(strategy)) {
    all[kProcessesSetting] = std::to_string(strategy.served->processes);
    all["gradients for an update"] = std::to_string(strategy.aggregate);
    all["largest staleness"] = std::to_string(strategy.max_staleness);
  }
  if (options.deterministic) {
    all["threads of a tower"] = std::to_string(options.threads);
    all["instructions"] = compute_instructions();
    all["device"] = options.devices.front()->name();
  }
  return all;
}

void check_settings(const std::map<std::string, std::string>& kept, bool exact,
                    const std::map<std::string, std::string>& setting) {
  const auto check = [&](const std::string& key, const std::string& value) {
    const auto found = kept.find(key);
    if (found == kept.end() && may_lack(key)) return;
    const std::string was = found == kept.end() ? "none" : found->second;
    if (was == value || (!exact && was == with_six_digits(value))) return;
    throw Error(ErrorCode::invalid_argument, "the checkpoint is from a run whose " + key + " is " +
                                                 was + ", not " + value + flags_of(key));
  };
  // The model first, because it decides about others.
  const auto model = setting.find(kModelSetting);
  if (model != setting.end()) check(model->first, model->second);
  for (const auto& [key, value] : setting) check(key, value);
}

}  // namespace penstock::towers
