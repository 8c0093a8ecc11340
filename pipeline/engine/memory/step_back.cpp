#include "pipeline/engine/memory/step_back.h"

#include <algorithm>

namespace penstock {

// Either this sees that the consumer may step back, or the consumer sees that it was asked.
bool StepBack::ask() noexcept {
  asked_.store(true, std::memory_order_seq_cst);
  if (alone() || !allowed_.load(std::memory_order_seq_cst)) return false;
  wanted_.store(true, std::memory_order_release);
  run_.segments.wake();
  return true;
}

bool StepBack::must_find_out() noexcept {
  if (!run_.memory.held().grew() || alone() || !allowed_.load(std::memory_order_acquire) ||
      run_.state.cancelled() || run_.activity.works_here() ||
      !run_.memory.held().exceeds(run_.memory.beside_slots()))
    return false;
  wanted_.store(true, std::memory_order_release);
  return true;
}

bool StepBack::wanted() const noexcept {
  return wanted_.load(std::memory_order_acquire) && allowed_.load(std::memory_order_acquire) &&
         !run_.activity.works_here();
}

void StepBack::done() noexcept {
  run_.ledger.step_back();
  run_.memory.be_exact();
  run_.slots.drop_free(0);
  constexpr int kMostHalvings = 16;
  constexpr std::uint64_t kMostPatience = std::uint64_t{1} << 40;
  if (asked() && halvings_.load(std::memory_order_relaxed) < kMostHalvings) {
    halvings_.fetch_add(1, std::memory_order_relaxed);
    patience_ = std::min(2 * patience_, kMostPatience);
    passed_ = 0;
  }
  alone_.store(setbacks_.add(), std::memory_order_release);
  wanted_.store(false, std::memory_order_release);
  asked_.store(false, std::memory_order_seq_cst);
}

void StepBack::received() noexcept {
  const std::uint64_t left = alone_.load(std::memory_order_relaxed);
  if (left == 0) {
    setbacks_.pass();
    if (halvings_.load(std::memory_order_relaxed) > 0 && ++passed_ == patience_) {
      halvings_.fetch_sub(1, std::memory_order_relaxed);
      passed_ = 0;
    }
    return;
  }
  alone_.store(left - 1, std::memory_order_release);
  if (left > 1) return;
  run_.memory.held().restart();
  run_.waker.notify();
}

}  // namespace penstock
