#include "staging/area.h"

#include <algorithm>
#include <utility>

namespace penstock {

namespace {

std::shared_ptr<StagingPool> own_pool(const DevicePtr& device, const BatchLayout& layout,
                                      const StagingOptions& options) {
  if (options.slots < 1 || options.ahead < -1 || !(options.watchdog_s > 0)) {
    throw Error(ErrorCode::invalid_argument,
                "a staging area has at least 1 slot, ahead is at least 0 (or -1) and the watchdog "
                "takes more than 0 s; not " +
                    std::to_string(options.slots) + ", " + std::to_string(options.ahead) + ", " +
                    std::to_string(options.watchdog_s));
  }
  return std::make_shared<StagingPool>(device,
                                       StagingPool::Options{.bytes = layout.bytes(),
                                                            .packed = !layout.fixed(),
                                                            .slots = options.slots,
                                                            .memory_bytes = options.memory_bytes});
}

}  // namespace

StagingState::StagingState(DevicePtr device, const Spec& batches, std::int64_t rows,
                           const StagingOptions& options, std::shared_ptr<StagingPool> pool)
    : device_(std::move(device)),
      backend_(device_->backend()),
      clock_(backend_.time()),
      layout_(batches, rows, options.max_bytes),
      in_place_(device_->unified()),
      watchdog_ns_(static_cast<std::int64_t>(options.watchdog_s * 1e9)),
      pool_(pool ? std::move(pool) : own_pool(device_, layout_, options)),
      most_(std::min(options.slots, pool_->most())),
      mutex_(pool_->mutex),
      change_(pool_->changed) {
  copy_.emplace(device_, "copy");
  if (backend_.guards()) guard_.emplace(device_, "guard");
  const int ahead = options.ahead < 0 ? slots() - 1 : options.ahead;
  for (int i = 0; i < slots() + ahead; ++i) {
    flights_.push_back(std::make_unique<Flight>(device_));
    flights_.back()->tensors.resize(layout_.size());
  }
  MutexLock lock(mutex_);
  for (const auto& flight : flights_) free_flights_.push_back(flight.get());
  member_.most = most_;
  pool_->mutex.assert_held();  // the same mutex
  pool_->join(member_);
}

StagingState::~StagingState() {
  // No other user remains. The requested work must end before its memory is freed.
  for (const auto& flight : flights_) {
    if (flight->staged) flight->ready.view().synchronize();
    for (std::size_t i = 0; i < flight->ends; ++i) flight->ended[i].view().synchronize();
  }
  if (guard_) guard_->view().synchronize();
  copy_.reset();
  guard_.reset();
  MutexLock lock(mutex_);
  for (const auto& flight : flights_) give_slot(*flight);
  pool_->mutex.assert_held();
  pool_->leave(member_);
  changed();
}

StagingSlot* StagingState::take_slot() {
  bool at_end = false;
  for (std::size_t i = 0; i < queue_.size(); ++i)
    at_end = at_end || queue_[i].kind == Entry::Kind::end;
  pool_->mutex.assert_held();
  return pool_->take(member_, at_end);
}

void StagingState::give_slot(Flight& flight) {
  if (!std::exchange(flight.has_slot, false)) return;
  pool_->mutex.assert_held();
  pool_->give_back(member_, *flight.slot);
}

void StagingState::ask_for_slots(bool asked) {
  if (!pool_->shared()) return;
  pool_->mutex.assert_held();
  pool_->ask(asked ? &member_ : nullptr);
  changed();
}

void StagingState::changed() {
  clock_.notify(change_);
}

void StagingState::throw_if_over() {
  if (!failed_.ok()) throw Error(failed_.error());
  if (closed_) throw Error(ErrorCode::cancelled, "the staging area is closed");
}

void StagingState::wait_for_change(std::int64_t since, std::int64_t until) {
  const std::int64_t now = clock_.now();
  const std::int64_t waited = now - since;
  if (waited >= watchdog_ns_) find_what_hangs();
  if (!failed_.ok()) return;
  wait_on(clock_, mutex_, change_, std::min(until, now + watchdog_ns_ - waited % watchdog_ns_));
}

void StagingState::await_copy(const Flight& flight) {
  MutexLock lock(mutex_);
  const std::int64_t since = clock_.now();
  while (!flight.copied && !flight.ready.view().done()) {
    if (!failed_.ok()) throw Error(failed_.error());
    wait_for_change(since);
  }
}

std::string StagingState::watchdog_text() const {
  return std::to_string(static_cast<double>(watchdog_ns_) * 1e-9).substr(0, 5) + " s";
}

// Only work that the device was asked to do can hang. A slow producer, or a consumer that keeps its
// batch, does not.
void StagingState::find_what_hangs() {
  const std::string after = " has not ended for " + watchdog_text();
  const std::int64_t before = clock_.now() - watchdog_ns_;
  std::string hangs;
  for (const auto& flight : flights_) {
    if (!flight->staged || flight->slot == nullptr) continue;
    const std::string where = "slot " + std::to_string(flight->slot->index) + " of " +
                              device_->id().to_string() + " on stream ";
    // Only a copy that has begun. Others may wait for it, or for work that still uses the slot.
    if (!flight->copied && flight->times.put <= before && flight->begin.view().done()) {
      hangs = "the copy into " + where + copy_->view().name();
      break;
    }
    if (flight->copied && flight->released && flight->times.ended <= before) {
      hangs = "work on " + where + flight->last_stream;
    }
  }
  if (hangs.empty()) return;
  if (failed_.ok()) failed_ = Status(ErrorCode::no_progress, hangs + after);
  changed();
  backend_.kick(kick_);
}

void StagingState::stand_in(Entry entry, std::optional<StagingPermit> permit) {
  MutexLock lock(mutex_);
  if (permit) entry.flight = permit->flight_;
  queue_.push_back(std::move(entry));
  if (permit) permit->flight_ = nullptr;
  changed();
}

void StagingState::put_end(std::optional<StagingPermit> permit) {
  stand_in({.kind = Entry::Kind::end}, std::move(permit));
}

void StagingState::put_error(const Status& error, std::optional<StagingPermit> permit) {
  stand_in({.kind = Entry::Kind::error, .error = error}, std::move(permit));
}

void StagingState::put_stop() {
  stand_in({.kind = Entry::Kind::stop}, std::nullopt);
}

void StagingState::recycle(Flight& flight) {
  flight.in_use = flight.staged = flight.copied = flight.has_pass = flight.released = false;
  flight.ends = 0;
  flight.holds = 0;
  flight.slot = nullptr;
  flight.error = Status();
  flight.times = {};
  free_flights_.push_back(&flight);
  changed();
}

void StagingState::close() noexcept {
  MutexLock lock(mutex_);
  closed_ = true;
  changed();
  backend_.kick(kick_);
}

void StagingState::fail(const Status& error) noexcept {
  MutexLock lock(mutex_);
  if (failed_.ok()) failed_ = error;
  changed();
  backend_.kick(kick_);
}

void StagingState::observe(BatchObserver* observer) {
  MutexLock lock(mutex_);
  observer_ = observer;
}

}  // namespace penstock
