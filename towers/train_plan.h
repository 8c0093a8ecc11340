// What follows from a run's options before it begins.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "towers/trainer.h"

namespace penstock::towers {

/// Throws Error{invalid_argument} for options that do not fit together.
void check_options(const TrainOptions& options);
/// True if a tower on this device has a Gpu.
bool computes_on_gpu(const TrainOptions& options, const Device& device);
/// The options with what they leave open: threads, and one tower for a model that is spread.
TrainOptions completed(TrainOptions options);
/// Updates in all, as far as it can be known; 0: it can't.
std::uint64_t steps_of(const Dataset& train, const TrainOptions& options);
/// What a run that goes on must have in common with the one before, by name.
std::map<std::string, std::string> setting_of(const TrainOptions& options, std::uint64_t steps);

}  // namespace penstock::towers
