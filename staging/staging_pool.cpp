#include "staging/staging_pool.h"

#include <algorithm>
#include <string>
#include <utility>

#include <penstock/log.h>

namespace penstock {

StagingPool::StagingPool(DevicePtr device, const Options& options)
    : device_(std::move(device)),
      options_(options),
      pinned_(device_->pinned()),
      expected_(options.members) {
  try {
    make_slots();
  } catch (...) {
    free_slots();
    throw;
  }
  for (const auto& slot : slots_) free_.push_back(slot.get());
}

StagingPool::~StagingPool() {
  free_slots();
}

void StagingPool::make_slots() {
  const auto least = static_cast<std::uint64_t>(options_.members);
  auto wanted = static_cast<std::uint64_t>(options_.slots);
  if (options_.memory_bytes > 0) wanted = std::min(wanted, options_.memory_bytes / options_.bytes);
  if (wanted < least) {
    throw Error(ErrorCode::resource_exhausted,
                device_->id().to_string() + ": a slot takes " + std::to_string(options_.bytes) +
                    " bytes, at least " + std::to_string(least) +
                    " are needed, and the device's memory for slots is limited to " +
                    std::to_string(options_.memory_bytes));
  }
  for (std::uint64_t i = 0; i < wanted; ++i) {
    slots_.push_back(std::make_unique<StagingSlot>());
    StagingSlot& slot = *slots_.back();
    slot.index = static_cast<int>(i);
    try {
      slot.data = device_->allocate(options_.bytes);
      if (options_.packed) slot.packed = pinned_->allocate(options_.bytes);
      if (device_->backend().guards()) slot.closed.emplace(device_);
    } catch (const Error& error) {
      if (i < least || error.code() != ErrorCode::resource_exhausted) throw;
      log(LogLevel::warning,
          std::to_string(i) + " of " + std::to_string(wanted) + " slots: " + error.what());
      free_slot(slot);
      slots_.pop_back();
      break;
    }
  }
}

void StagingPool::free_slots() noexcept {
  for (const auto& slot : slots_) free_slot(*slot);
}

void StagingPool::free_slot(const StagingSlot& slot) noexcept {
  if (slot.data != nullptr) device_->deallocate(slot.data, options_.bytes);
  if (slot.packed != nullptr) pinned_->deallocate(slot.packed, options_.bytes);
}

void StagingPool::join(Member& member) {
  members_.push_back(&member);
}

void StagingPool::leave(Member& member) {
  std::erase(members_, &member);
  --expected_;
  if (asked_ == &member) asked_ = nullptr;
}

// Invariant: there are as many free slots as there are members without one.
StagingSlot* StagingPool::take(Member& member, bool at_end) {
  if (free_.empty() || member.taken >= member.most) return nullptr;
  if (shared() && member.taken > 0 && (at_end || asked_ != &member)) return nullptr;
  std::size_t promised = static_cast<std::size_t>(expected_) - 1;
  for (const Member* other : members_) promised -= other != &member && other->taken > 0 ? 1 : 0;
  if (free_.size() <= promised) return nullptr;
  ++member.taken;
  return free_.pop_front();
}

void StagingPool::give_back(Member& member, StagingSlot& slot) {
  --member.taken;
  free_.push_back(&slot);
}

}  // namespace penstock
