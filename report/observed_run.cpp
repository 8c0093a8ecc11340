#include "pipeline/core/observed_run.h"

#include <new>
#include <utility>

#include "report/observed_runs.h"
#include "report/reporter.h"

namespace penstock {
namespace {

class Listed final : public ObservedRun {
 public:
  Listed(Reporter& reporter, std::function<Observation()> look)
      : reporter_(reporter), entry_(reporter.runs().add(std::move(look))) {}
  ~Listed() override {
    try {
      reporter_.runs().remove(entry_);
    } catch (const std::bad_alloc&) {
      return;  // the last look is lost
    }
    reporter_.run_ended();
  }

 private:
  Reporter& reporter_;
  const ObservedRuns::EntryPtr entry_;
};

}  // namespace

std::unique_ptr<ObservedRun> observe_run(std::function<Observation()> look) noexcept {
  Reporter* const reporter = Reporter::asked_for();
  if (reporter == nullptr) return nullptr;
  try {
    return std::make_unique<Listed>(*reporter, std::move(look));
  } catch (const std::bad_alloc&) {
    return nullptr;  // a run that is not reported
  }
}

}  // namespace penstock
