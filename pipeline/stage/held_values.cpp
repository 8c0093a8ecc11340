#include "pipeline/stage/held_values.h"

#include <string>

#include "pipeline/stage/support.h"

namespace penstock {

bool PayloadCharges::take() noexcept {
  std::uint64_t unused = unused_.load(std::memory_order_relaxed);
  while (unused >= kTogether) {
    if (!unused_.compare_exchange_weak(unused, unused - kTogether, std::memory_order_relaxed))
      continue;
    refs_.fetch_add(kTogether, std::memory_order_relaxed);
    return true;
  }
  return false;
}

void PayloadCharges::add(BufferPtr charge) {
  {
    const MutexLock lock(mutex_);
    charges_.push_back(std::move(charge));
  }
  unused_.fetch_add(kTogether, std::memory_order_relaxed);
}

void PayloadCharges::give() noexcept {
  if (unused_.fetch_add(1, std::memory_order_relaxed) + 1 >= 2 * kTogether) drop_one();
  release();
}

void PayloadCharges::drop_one() noexcept {
  std::uint64_t unused = unused_.load(std::memory_order_relaxed);
  do {
    if (unused < 2 * kTogether) return;
  } while (!unused_.compare_exchange_weak(unused, unused - kTogether, std::memory_order_relaxed));
  BufferPtr dropped;
  const MutexLock lock(mutex_);
  dropped = std::move(charges_.back());
  charges_.pop_back();
}

std::uint64_t HeldValues::payloads_of_children(const Payload& payload) noexcept {
  std::uint64_t count = 0;
  for (const ElementRef& child : payload.children) count += payloads_of(child);
  return count;
}

bool HeldValues::charge(const ElementRef& item, std::uint64_t held) {
  if (full_) return false;
  if (!item.payload || held <= free_) return true;
  if ((held - free_) * kBytes > run_.most_kept()) {
    full_ = no_room(held, true);
    return false;
  }
  try {
    charge(*item.payload);
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::resource_exhausted) throw;
    full_ = no_room(held, false);
    return false;
  }
}

Error HeldValues::no_room(std::uint64_t held, bool too_much) const {
  return {ErrorCode::resource_exhausted,
          "the " + std::to_string(held) + " elements held take " + std::to_string(kBytes) +
              " bytes each besides their values, and " + why_not_kept(run_, too_much) +
              "; give it more, or let the stage hold fewer",
          Provenance{{}, -1, -1, run_.stage_name(node_)}};
}

void HeldValues::charge(Payload& payload) {
  for (const ElementRef& child : payload.children)
    if (child.payload) charge(*child.payload);
  if (!payload.claim_charge()) return;
  if (!charges_) charges_ = Ref<PayloadCharges>(new PayloadCharges);
  while (ready_ == 0) {
    if (charges_->take()) {
      ready_ = PayloadCharges::kTogether;
    } else {
      charges_->add(run_.charge(PayloadCharges::kTogether * kBytes));
    }
  }
  payload.charge = charges_.get();
  --ready_;
}

void HeldValues::refuse() {
  run_.give_up(*full_);
  throw Error(*full_);
}

}  // namespace penstock
