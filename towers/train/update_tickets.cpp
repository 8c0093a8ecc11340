#include "towers/train/update_tickets.h"

#include <algorithm>

namespace penstock::towers {

// A new update counts twice until its ticket is returned. So there may be too few tickets for a
// moment, but never too many.
bool UpdateTickets::may_take(int tower) const {
  if (strategy_.step() + taken_ >= until_) return false;
  return begun_ == nullptr ||
         (*begun_)[static_cast<std::size_t>(tower)] <= *std::ranges::min_element(*begun_);
}

bool UpdateTickets::take(int tower) {
  const MutexLock lock(mutex_);
  while (!closed_ && !may_take(tower)) {
    if (strategy_.step() >= until_) return false;
    changed_.wait(mutex_);
  }
  if (closed_) return false;
  ++taken_;
  if (begun_ != nullptr) {
    ++(*begun_)[static_cast<std::size_t>(tower)];
    changed_.notify_all();
  }
  return true;
}

void UpdateTickets::give_back() {
  const MutexLock lock(mutex_);
  --taken_;
  changed_.notify_all();
}

void UpdateTickets::close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace penstock::towers
