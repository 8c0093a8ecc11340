#include "staging/area_watch.h"

#include <algorithm>
#include <utility>

namespace penstock {

AreaWatch::AreaWatch(DevicePtr device, std::shared_ptr<AreaLock> lock, const FlightQueue& queue,
                     std::string copy, double watchdog_s)
    : lock_(std::move(lock)),
      mutex(lock_->mutex),
      device_(std::move(device)),
      clock_(device_->backend().time()),
      copy_(std::move(copy)),
      watchdog_ns_(static_cast<std::int64_t>(watchdog_s * 1e9)),
      queue_(queue) {}

std::string AreaWatch::watchdog_text() const {
  return std::to_string(static_cast<double>(watchdog_ns_) * 1e-9).substr(0, 5) + " s";
}

void AreaWatch::wait_for_change(std::int64_t since, std::int64_t until) {
  const std::int64_t now = clock_.now();
  const std::int64_t waited = now - since;
  if (waited >= watchdog_ns_) find_what_hangs();
  if (!failed_.ok()) return;
  wait_on(clock_, mutex, lock_->changed,
          std::min(until, now + watchdog_ns_ - waited % watchdog_ns_));
}

void AreaWatch::find_what_hangs() {
  const std::string hangs =
      queue_.what_hangs(clock_.now() - watchdog_ns_, device_->id().to_string(), copy_);
  if (hangs.empty()) return;
  fail(Status(ErrorCode::no_progress, hangs + " has not ended for " + watchdog_text()));
}

void AreaWatch::fail(const Status& error) noexcept {
  if (failed_.ok()) failed_ = error;
  changed();
  wake_reaper();
}

void AreaWatch::throw_if_over() {
  if (!failed_.ok()) throw Error(failed_.error());
  if (closed_) throw Error(ErrorCode::cancelled, "the staging area is closed");
}

void AreaWatch::throw_pending() {
  if (pending_.ok()) return;
  const Status error = std::exchange(pending_, Status());
  throw Error(error.error());
}

}  // namespace penstock
