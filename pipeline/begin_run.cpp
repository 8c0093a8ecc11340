// Begins runs: brings the engine together with the layers that it does not know.
#include "pipeline/core/begin_run.h"

#include "pipeline/core/observed_run.h"
#include "pipeline/engine/run/start.h"
#include "pipeline/remote/pool.h"

namespace penstock {
namespace {

/// What runs take from layers above the engine.
RunHooks hooks_of(const RunSetting& setting) {
  return {.open_workers = remote::open_workers,
          .observe = setting.observed ? observe_run : nullptr};
}

}  // namespace

Iterator begin_run(const Dataset& dataset, const RunOptions& options, const RunSetting& setting) {
  return start_run(dataset, options, setting, hooks_of(setting));
}

Iterator resume_run(const Dataset& dataset, std::string_view state, const RunOptions& options,
                    const RunSetting& setting) {
  return restart_run(dataset, state, options, setting, hooks_of(setting));
}

Iterator Dataset::iterate(const RunOptions& options) const {
  return begin_run(*this, options, {});
}

Iterator Dataset::restore(std::string_view state, RunOptions options) const {
  return resume_run(*this, state, options, {});
}

Iterator Dataset::restore(const std::vector<std::string>& states, RunOptions options) const {
  return restart_run(*this, states, options, {}, hooks_of({}));
}

}  // namespace penstock
