#include "staging/share_queue.h"

#include <algorithm>
#include <utility>

namespace penstock {

void ShareQueue::push(Queued share) {
  MutexLock lock(mutex_);
  while (queue_.size() >= most_ && !closed_) wait_on(clock_, mutex_, changed_);
  queue_.push_back(std::move(share));
  clock_.notify(changed_);
}

void ShareQueue::push_for_all(std::vector<Queued> queued) {
  MutexLock lock(mutex_);
  for (Queued& each : queued) queue_.push_back(std::move(each));
  clock_.notify(changed_);
  while (!queue_.empty() && !closed_) wait_on(clock_, mutex_, changed_);
}

Queued ShareQueue::take(int tower) {
  const auto may_take = [tower](const Queued& queued) {
    return queued.tower == tower || queued.tower == FeedJournal::kNobody;
  };
  MutexLock lock(mutex_);
  while (!closed_) {
    const auto found = std::find_if(queue_.begin(), queue_.end(), may_take);
    if (found != queue_.end()) {
      Queued queued = std::move(*found);
      queue_.erase(found);
      clock_.notify(changed_);
      return queued;
    }
    wait_on(clock_, mutex_, changed_);
  }
  throw Error(ErrorCode::cancelled, "the feed is closed");
}

void ShareQueue::close() noexcept {
  MutexLock lock(mutex_);
  closed_ = true;
  clock_.notify(changed_);
}

}  // namespace penstock
