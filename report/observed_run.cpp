#include "pipeline/core/observed_run.h"

#include <utility>

#include "report/observed_runs.h"
#include "report/reporter.h"

namespace penstock {

ObservedRun::ObservedRun(std::function<Observation()> look) noexcept {
  Reporter* const reporter = UnobservedRuns::here() ? nullptr : Reporter::asked_for();
  if (reporter == nullptr) return;
  try {
    entry_ = reporter->runs().add(std::move(look));
  } catch (const std::bad_alloc&) {
    entry_ = nullptr;  // a run that is not reported
  }
}

void ObservedRun::leave() noexcept {
  Reporter* const reporter = entry_ ? Reporter::asked_for() : nullptr;
  if (reporter == nullptr) return;
  const std::shared_ptr<Entry> entry = std::exchange(entry_, nullptr);
  try {
    reporter->runs().remove(entry);
  } catch (const std::bad_alloc&) {
    return;  // the last look is lost
  }
  reporter->run_ended();
}

}  // namespace penstock
