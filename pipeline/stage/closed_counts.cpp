#include "pipeline/stage/closed_counts.h"

#include <new>
#include <string>

#include "pipeline/stage/open_context.h"
#include "pipeline/stage/run_services.h"

namespace penstock {

ClosedCounts::ClosedCounts(const OpenContext& context)
    : run_(context.run), epoch_(context.epoch), counted_(context.counted), outer_(context.closed) {}

ClosedCounts::~ClosedCounts() {
  if (!outer_) return;
  for (const auto& [stage, passed] : stages_) outer_->add(*stage, passed);
}

void ClosedCounts::add(const StageCounters& stage, Passed passed) noexcept {
  if (!counted_ || (passed.seen == 0 && passed.errors() == 0)) return;
  const MutexLock lock(mutex_);
  try {
    stages_[&stage] += passed;
  } catch (const std::bad_alloc&) {
    return;  // a restored run counts less
  }
}

void ClosedCounts::save(StateWriter& state) const {
  std::map<std::string, Passed> named;
  {
    const MutexLock lock(mutex_);
    for (const auto& [stage, passed] : stages_) named[run_.key_of(*stage)] += passed;
  }
  state.put(named.size());
  for (const auto& [stage, passed] : named) {
    state.put_bytes(stage);
    state.put(passed.seen);
    state.put(passed.bad);
    state.put(passed.left_out);
  }
}

void ClosedCounts::restore(StateReader& state) {
  for (std::uint64_t left = state.get(); left > 0; --left) {
    const std::string stage(state.get_bytes());
    Passed passed;
    passed.seen = state.get();
    passed.bad = state.get();
    passed.left_out = state.get();
    if (counted_) add(run_.count_again(stage, passed, epoch_), passed);
  }
}

}  // namespace penstock
