// The settings that determine a run's result, which checkpoints keep.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <penstock/towers/trainer.h>

namespace penstock::towers {

inline constexpr const char* kTowersSetting = "number of towers";
inline constexpr const char* kBatchSetting = "batch";
inline constexpr const char* kProcessesSetting = "number of processes";
inline constexpr const char* kStepsSetting = "number of steps";
inline constexpr const char* kModelSetting = "model";  // if it has a name
inline constexpr const char* kFeedSetting = "feed mode";
inline constexpr const char* kEndSetting = "epoch end";
/// Set only if classes have weights.
inline constexpr const char* kWeightsSetting = "weight of classes";
/// Returns the settings that determine a run's result, by name, with all digits. A run that resumes
/// must have the same, except for kStepsSetting. That one is set if a schedule needs it.
std::map<std::string, std::string> setting_of(const TrainOptions& options, std::uint64_t steps);
/// Returns the flags of `penstock train` that give a setting, " (--batch)"; empty if none does.
std::string flags_of(const std::string& setting);
/// Compares the settings that a checkpoint keeps with those of the run that is to resume from it.
/// Throws Error{invalid_argument} that names a difference, both values and the flag. `exact`: the
/// checkpoint's numbers have all their digits.
void check_settings(const std::map<std::string, std::string>& kept, bool exact,
                    const std::map<std::string, std::string>& setting);

}  // namespace penstock::towers
