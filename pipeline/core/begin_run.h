// Runs that other parts of the library begin.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include <penstock/dataset.h>
#include <penstock/iterator.h>
#include <penstock/plan.h>

#include "pipeline/core/batch_holder.h"
#include "pipeline/core/batch_share.h"
#include "pipeline/core/run_control.h"

namespace penstock {

/// Settings of a run besides the options of its user. The code that begins the run chooses them.
struct RunSetting {
  /// The share of the batches that the run makes. If empty, it makes all.
  std::optional<BatchShare> share{};
  /// The holder of the batches. Null: they come back by calls of `Iterator::next` only.
  std::shared_ptr<const BatchHolder> holder{};
  /// False if the run is an input of another one, which is observed.
  bool observed = true;
  /// True if elements are made one at a time from the beginning. Tests compare other runs with
  /// these.
  bool alone = false;
  /// May be null.
  std::shared_ptr<RunControl> control{};
};

/// Do what Dataset::iterate and Dataset::restore do, with a setting.
Iterator begin_run(const Dataset& dataset, const RunOptions& options, const RunSetting& setting);
Iterator resume_run(const Dataset& dataset, std::string_view state, const RunOptions& options,
                    const RunSetting& setting);

/// True if a state saved within an epoch shows that elements failed and are missing from the
/// batches so far, so that later elements took their places. REQUIRES: the batches are the plan's
/// topmost ones, and the positions of their elements determine them. Throws what Dataset::restore
/// does.
bool lacks_elements(std::string_view state, const Plan& plan);

}  // namespace penstock
