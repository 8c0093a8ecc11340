// Starts runs of datasets.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/dataset.h>
#include <penstock/iterator.h>

#include "pipeline/core/begin_run.h"
#include "pipeline/core/observed_run.h"
#include "pipeline/engine/run/remote_work.h"

namespace penstock {

/// Functions of layers above the engine that a run calls.
struct RunHooks {
  /// Called if the run's options name workers.
  OpenWorkers* open_workers = nullptr;
  /// Null: the run is not observed.
  ObserveRun* observe = nullptr;
};

/// Starts a run from the beginning. Throws what Dataset::iterate does.
Iterator start_run(const Dataset& dataset, const RunOptions& options, const RunSetting& setting,
                   const RunHooks& hooks);
/// Start a run from a saved position, or from those of all shards of a run. Throw what
/// Dataset::restore does.
Iterator restart_run(const Dataset& dataset, std::string_view state, RunOptions options,
                     const RunSetting& setting, const RunHooks& hooks);
Iterator restart_run(const Dataset& dataset, const std::vector<std::string>& states,
                     RunOptions options, const RunSetting& setting, const RunHooks& hooks);

}  // namespace penstock
