#include "staging/area.h"

#include <algorithm>

#include <penstock/log.h>

namespace penstock {

StagingState::StagingState(DevicePtr device, const Spec& batches, std::int64_t rows,
                           const StagingOptions& options)
    : device_(std::move(device)),
      clock_(device_->clock()),
      layout_(batches, rows, options.max_bytes),
      in_place_(device_->unified()),
      watchdog_ns_(static_cast<std::int64_t>(options.watchdog_s * 1e9)),
      pinned_(device_->pinned()) {
  if (options.slots < 1 || options.ahead < -1 || !(options.watchdog_s > 0)) {
    throw Error(ErrorCode::invalid_argument,
                "a staging area has at least 1 slot, ahead is at least 0 (or -1) and the watchdog "
                "takes more than 0 s; not " +
                    std::to_string(options.slots) + ", " + std::to_string(options.ahead) + ", " +
                    std::to_string(options.watchdog_s));
  }
  copy_.emplace(device_, "copy");
  if (device_->guards()) guard_.emplace(device_, "guard");
  try {
    make_slots(options);
    const int ahead = options.ahead < 0 ? slots() - 1 : options.ahead;
    for (int i = 0; i < slots() + ahead; ++i) {
      flights_.push_back(std::make_unique<Flight>(device_));
      flights_.back()->tensors.resize(layout_.size());
    }
  } catch (...) {
    free_slots();
    throw;
  }
  MutexLock lock(mutex_);
  for (const auto& slot : slots_) free_slots_.push_back(slot.get());
  for (const auto& flight : flights_) free_flights_.push_back(flight.get());
}

void StagingState::make_slots(const StagingOptions& options) {
  auto wanted = static_cast<std::uint64_t>(options.slots);
  if (options.memory_bytes > 0) wanted = std::min(wanted, options.memory_bytes / layout_.bytes());
  if (wanted == 0) {
    throw Error(ErrorCode::resource_exhausted,
                device_->id().to_string() + ": a slot takes " + std::to_string(layout_.bytes()) +
                    " bytes, and the device's memory for slots is limited to " +
                    std::to_string(options.memory_bytes));
  }
  for (std::uint64_t i = 0; i < wanted; ++i) {
    auto slot = std::make_unique<StagingSlot>();
    slot->index = static_cast<int>(i);
    try {
      slot->data = device_->allocate(layout_.bytes());
      if (!layout_.fixed()) slot->packed = pinned_->allocate(layout_.bytes());
    } catch (const Error& error) {
      if (slot->data != nullptr) device_->deallocate(slot->data, layout_.bytes());
      if (i == 0 || error.code() != ErrorCode::resource_exhausted) throw;
      log(LogLevel::warning,
          std::to_string(i) + " of " + std::to_string(wanted) + " slots: " + error.what());
      break;
    }
    if (guard_) slot->closed.emplace(device_);
    slots_.push_back(std::move(slot));
  }
}

StagingState::~StagingState() {
  // Nobody else is left: what was asked for ends before its memory goes.
  for (const auto& flight : flights_) {
    if (flight->staged) flight->ready.view().synchronize();
    for (std::size_t i = 0; i < flight->ends; ++i) flight->ended[i].view().synchronize();
  }
  if (guard_) guard_->view().synchronize();
  copy_.reset();
  guard_.reset();
  free_slots();
}

void StagingState::free_slots() noexcept {
  for (const auto& slot : slots_) {
    device_->deallocate(slot->data, layout_.bytes());
    if (slot->packed != nullptr) pinned_->deallocate(slot->packed, layout_.bytes());
  }
  slots_.clear();
}

void StagingState::changed() {
  clock_.notify(change_);
}

void StagingState::throw_if_over() {
  if (failed_) throw Error(*failed_);
  if (closed_) throw Error(ErrorCode::cancelled, "the staging area is closed");
}

void StagingState::wait_for_change(std::int64_t since) {
  const std::int64_t now = clock_.now();
  const std::int64_t waited = now - since;
  if (waited >= watchdog_ns_) find_what_hangs();
  clock_.wait(mutex_, change_, now + watchdog_ns_ - waited % watchdog_ns_);
}

void StagingState::await_copy(const Flight& flight) {
  MutexLock lock(mutex_);
  const std::int64_t since = clock_.now();
  while (!flight.copied && !flight.ready.view().done()) {
    if (failed_) throw Error(*failed_);
    wait_for_change(since);
  }
}

// Only what the device has been asked to do counts: a slow producer, or a consumer that keeps its
// batch, does not hang.
void StagingState::find_what_hangs() {
  const std::string after = " has not ended for " +
                            std::to_string(static_cast<double>(watchdog_ns_) * 1e-9).substr(0, 5) +
                            " s";
  const std::int64_t before = clock_.now() - watchdog_ns_;
  std::string hangs;
  for (const auto& flight : flights_) {
    if (!flight->staged || flight->slot == nullptr) continue;
    const std::string where = "slot " + std::to_string(flight->slot->index) + " of " +
                              device_->id().to_string() + " on stream ";
    // One that has begun; others may only wait for it, or for work that still uses the slot.
    if (!flight->copied && flight->times.put <= before && flight->begin.view().done()) {
      hangs = "the copy into " + where + copy_->view().name();
      break;
    }
    if (flight->copied && flight->released && flight->times.ended <= before) {
      hangs = "work on " + where + flight->last_stream;
    }
  }
  if (hangs.empty()) return;
  failed_ = Error(ErrorCode::no_progress, hangs + after);
  changed();
  throw Error(*failed_);
}

void StagingState::put_end() {
  MutexLock lock(mutex_);
  queue_.push_back({});
  changed();
}

void StagingState::put_error(Error error) {
  MutexLock lock(mutex_);
  queue_.push_back({nullptr, std::move(error)});
  changed();
}

void StagingState::refuse_if_all_are_held() {
  const auto mine = std::count_if(flights_.begin(), flights_.end(), [](const auto& flight) {
    return flight->holds > 0 && flight->holder == std::this_thread::get_id();
  });
  if (mine < slots()) return;
  throw Error(ErrorCode::out_of_range, device_->id().to_string() + ": all " +
                                           std::to_string(slots()) +
                                           " slots are held by the caller; release a batch before "
                                           "asking for the next");
}

StagedBatch StagingState::lease(Flight& flight) {
  flight.holder = std::this_thread::get_id();
  return {shared_from_this(), flight};
}

std::optional<StagedBatch> StagingState::get() {
  const Range range(*device_, "penstock: wait for a batch");
  MutexLock lock(mutex_);
  const std::int64_t asked = clock_.now();
  for (;;) {
    throw_if_over();
    if (pending_) throw *std::exchange(pending_, std::nullopt);
    if (queue_.empty()) {
      refuse_if_all_are_held();
    } else if (Flight* flight = queue_.front().flight; flight == nullptr) {
      const Entry entry = queue_.pop_front();
      if (entry.error) throw Error(*entry.error);
      return std::nullopt;
    } else if (flight->error) {
      queue_.pop_front();
      const Error error = *flight->error;
      recycle(*flight);
      throw error;
    } else if (flight->staged) {
      queue_.pop_front();
      flight->times.asked = asked;
      return lease(*flight);
    }
    wait_for_change(asked);
  }
}

StagedBatch StagingState::peek(std::size_t i) {
  MutexLock lock(mutex_);
  const std::int64_t asked = clock_.now();
  for (;;) {
    throw_if_over();
    std::size_t place = 0;
    for (std::size_t k = 0; k < queue_.size(); ++k) {
      Flight* flight = queue_[k].flight;
      if (flight == nullptr || flight->error || place++ != i || !flight->staged) continue;
      ++flight->holds;
      return lease(*flight);
    }
    if (i >= slots_.size()) {
      throw Error(ErrorCode::out_of_range,
                  "peek(" + std::to_string(i) + ") into " + std::to_string(slots()) + " slots");
    }
    wait_for_change(asked);
  }
}

std::size_t StagingState::size() const {
  MutexLock lock(mutex_);
  std::size_t count = 0;
  for (std::size_t k = 0; k < queue_.size(); ++k) {
    const Flight* flight = queue_[k].flight;
    count += flight != nullptr && flight->staged && !flight->error ? 1 : 0;
  }
  return count;
}

void StagingState::clear() {
  MutexLock lock(mutex_);
  for (std::size_t left = queue_.size(); left > 0; --left) {
    Entry entry = queue_.pop_front();
    if (entry.flight == nullptr || (!entry.flight->staged && !entry.flight->error)) {
      queue_.push_back(std::move(entry));  // ends, and what is being filled
    } else if (entry.flight->error) {
      recycle(*entry.flight);
    } else {
      drop_hold(*entry.flight);
    }
  }
  changed();
}

void StagingState::wait(Flight& flight, StreamView stream, const Site& site) {
  stream.wait(flight.ready, site);
  {
    MutexLock lock(mutex_);
    if (std::exchange(flight.has_pass, true)) return;
  }
  stream.record(flight.passed, site);
}

void StagingState::release(Flight& flight, std::span<const StreamView> streams,
                           const Site& site) noexcept {
  MutexLock lock(mutex_);
  try {
    StagingSlot& slot = *flight.slot;
    while (slot.released.size() < slot.releases + streams.size())
      slot.released.emplace_back(device_);
    while (flight.ended.size() < flight.ends + streams.size()) flight.ended.emplace_back(device_);
    for (const StreamView& stream : streams) {
      stream.record(slot.released[slot.releases++], site);
      stream.record(flight.ended[flight.ends++], site);
      flight.last_stream = stream.name();
    }
    drop_hold(flight);
  } catch (...) {
    // A slot whose release can't be asked for is never free again.
    if (!failed_) failed_ = status_from_current_exception().error();
    changed();
  }
}

void StagingState::drop_hold(Flight& flight) {
  if (--flight.holds > 0) return;
  flight.released = true;
  flight.times.ended = clock_.now();
  if (guard_ && !in_place_) {
    StagingSlot& slot = *flight.slot;
    const StreamView guard = *guard_;
    guard.wait(flight.ready);
    for (std::size_t i = 0; i < slot.releases; ++i) guard.wait(slot.released[i]);
    device_->guard({slot.data, layout_.bytes()}, false, guard.state());
    guard.record(*slot.closed);
  }
  if (flight.copied && !in_place_) free_slots_.push_back(flight.slot);
  changed();
  device_->kick(kick_);
}

void StagingState::recycle(Flight& flight) {
  flight.in_use = flight.staged = flight.copied = flight.has_pass = flight.released = false;
  flight.ends = 0;
  flight.holds = 0;
  flight.slot = nullptr;
  flight.error.reset();
  flight.times = {};
  free_flights_.push_back(&flight);
  changed();
}

void StagingState::close() noexcept {
  MutexLock lock(mutex_);
  closed_ = true;
  changed();
  device_->kick(kick_);
}

void StagingState::fail(Error error) noexcept {
  MutexLock lock(mutex_);
  if (!failed_) failed_ = std::move(error);
  changed();
  device_->kick(kick_);
}

void StagingState::observe(BatchObserver* observer) {
  MutexLock lock(mutex_);
  observer_ = observer;
}

}  // namespace penstock
