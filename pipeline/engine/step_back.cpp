#include "pipeline/engine/step_back.h"

#include "pipeline/engine/run.h"

namespace penstock {

bool StepBack::ask(std::uint64_t bytes) noexcept {
  if (bytes == 0 || !allowed_ || run_.cancelled()) return false;
  if (!wanted_.load(std::memory_order_acquire)) {
    if (!run_.memory().keep_for_codecs(bytes)) return false;
    wanted_.store(true, std::memory_order_release);
  }
  run_.segments().wake();
  return true;
}

bool StepBack::wanted() const noexcept {
  return !AtWork::here() && wanted_.load(std::memory_order_acquire);
}

void StepBack::done() noexcept {
  run_.ledger().step_back();
  run_.slots().drop_free();
  wanted_.store(false, std::memory_order_release);
}

}  // namespace penstock
