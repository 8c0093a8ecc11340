#include "towers/checkpoint/resuming.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string>

#include <penstock/error.h>
#include <penstock/log.h>

#include "towers/checkpoint/run_settings.h"
#include "towers/classes.h"
#include "towers/strategies/kinds.h"

namespace penstock::towers {
namespace {

std::int64_t number_in(const std::string& text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// Removes from `setting` what may differ if other towers resume the run. Throws if they may not.
void check_towers(const StoredRun& found, const TrainOptions& options,
                  std::map<std::string, std::string>& setting) {
  const KeptTowers kept = kept_towers(found);
  const int towers = all_towers(options);
  if (kept.towers == 0 || kept.towers == towers) return;
  const auto text = [](std::int64_t of, std::int64_t rows) {
    return std::to_string(of) + " towers of " + std::to_string(rows) + " rows";
  };
  if (!makes_steps_of(options, towers, kept))
    throw Error(ErrorCode::invalid_argument,
                "the checkpoint is from a run whose number of towers is " +
                    std::to_string(kept.towers) + ", not " + std::to_string(towers) +
                    flags_of(kTowersSetting) +
                    "; another number makes the same steps only if towers divide batches (feed "
                    "split, and no epoch end stop) with as many rows in an update as " +
                    text(kept.towers, kept.batch) + ", not " + text(towers, options.batch));
  setting.erase(kTowersSetting);
  setting.erase(kBatchSetting);
  log(LogLevel::warning, text(towers, options.batch) + " resume where " +
                             text(kept.towers, kept.batch) +
                             " stopped: steps are the same, but rounded otherwise");
}

}  // namespace

KeptTowers kept_towers(const StoredRun& found) {
  return {static_cast<int>(number_in(found.setting(kTowersSetting))),
          number_in(found.setting(kBatchSetting)), found.name()};
}

RunPosition resume_from(const StoredRun& found, VariableStore& store, Strategy& strategy,
                        const TrainOptions& options, std::uint64_t steps) {
  std::map<std::string, std::string> setting = setting_of(options, steps);
  const auto now = setting.extract(kStepsSetting);
  check_towers(found, options, setting);
  RunPosition position = found.restore(store, strategy, setting);
  const std::string weighed = found.setting(kWeightsSetting);
  if (!weighed.empty() && !position.setting.contains(kWeightsSetting))
    throw Error(ErrorCode::invalid_argument,
                "the checkpoint is from a run whose " + std::string(kWeightsSetting) + " is " +
                    weighed + ", which this run does not have" + flags_of(kWeightsSetting));
  const std::string was = found.setting(kStepsSetting);
  if (!now.empty() && !was.empty() && was != now.mapped())
    log(LogLevel::warning, "schedule " + options.strategy.update.schedule.describe() +
                               " now spans " + now.mapped() + " steps; before, it spanned " + was);
  return position;
}

std::unique_ptr<Feed> open_feed_at(const std::string& position, const std::string& file,
                                   const Dataset& batches, const std::vector<DevicePtr>& devices,
                                   const FeedOptions& options) {
  if (position.empty()) return std::make_unique<Feed>(batches, devices, options);
  try {
    return std::make_unique<Feed>(Feed::restore(position, batches, devices, options));
  } catch (const Error& error) {
    if (file.empty() || error.code() != ErrorCode::invalid_argument) throw;
    throw Error(error.code(), file + ": " + error.cause(), error.where(), error.original());
  }
}

std::vector<std::string> classes_to_learn(const Dataset& train, const StoredRun* found,
                                          const TrainOptions& options) {
  const std::vector<std::string> own = classes_of(train);
  if (own.size() == 1)
    log(LogLevel::warning, std::string(kTrainingData) + " have only one class, " + own.front() +
                               ": there is nothing to classify");
  if (found != nullptr) {
    const std::vector<std::string> kept = found->classes();
    if (kept.empty()) return own;
    if (kept != own && is_served(options.strategy))
      throw Error(ErrorCode::invalid_argument,
                  "the checkpoint is from a run with other classes than the training data");
    return kept;
  }
  if (options.initial_variables.empty() || own.empty()) return own;
  const std::vector<std::string> kept = exported_classes(options.initial_variables);
  if (kept.empty()) return own;
  for (const std::string& name : own) {
    if (std::ranges::find(kept, name) != kept.end()) continue;
    log(LogLevel::warning,
        "the initial variables know no class " + name + ": labels are those of the training data");
    return own;
  }
  return kept;
}

}  // namespace penstock::towers
