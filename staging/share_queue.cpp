#include "staging/share_queue.h"

#include <algorithm>
#include <utility>

namespace penstock {
namespace {

Error closed() {
  return {ErrorCode::cancelled, "the feed is closed"};
}

}  // namespace

void ShareQueue::push(Queued share) {
  MutexLock lock(mutex_);
  wait_for_room(most_);
  queue_.push_back(std::move(share));
  clock_.notify(changed_);
}

void ShareQueue::push_for_all(std::vector<Queued> queued) {
  MutexLock lock(mutex_);
  for (Queued& each : queued) queue_.push_back(std::move(each));
  clock_.notify(changed_);
  wait_for_room(1);
}

void ShareQueue::wait_for_room(std::size_t entries) {
  while (queue_.size() >= entries && !closed_) {
    if (waits_since_ == kDoesNotWait) waits_since_ = clock_.now();
    wait_on(clock_, mutex_, changed_);
  }
  waits_since_ = kDoesNotWait;
  if (closed_) throw closed();
}

FeederWait ShareQueue::waits_for(int asks) const {
  MutexLock lock(mutex_);
  const auto first = std::find_if(queue_.begin(), queue_.end(), [asks](const Queued& queued) {
    return queued.tower != FeedJournal::kNobody && queued.tower != asks;
  });
  if (waits_since_ == kDoesNotWait || first == queue_.end()) return {};
  return {first->tower, waits_since_};
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
  throw closed();
}

void ShareQueue::close() noexcept {
  MutexLock lock(mutex_);
  closed_ = true;
  clock_.notify(changed_);
}

}  // namespace penstock
