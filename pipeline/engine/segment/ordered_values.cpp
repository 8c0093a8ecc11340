#include "pipeline/engine/segment/ordered_values.h"

#include <algorithm>

namespace penstock {

std::size_t OrderedValues::room(const Demand& demand) {
  limit_ = demand.group_limit;
  if (demand.crowded) return 0;
  if (admitted_ + spent_ < limit_) return demand.wanted;
  // Only for a thread that would wait otherwise, because results that wait also leave the CPU's
  // caches.
  return demand.threads_idle && demand.roomy && waits_for_head() ? demand.wanted : 0;
}

// True if groups that are done wait for one that is not, and more may join them.
bool OrderedValues::waits_for_head() const {
  return !window_.empty() && !window_.front()->done && elements_ < kBehindSlow * limit_;
}

void OrderedValues::admit(Group& group) {
  ++admitted_;
  elements_ += group.count;
  if (ordered_) window_.push_back(&group);
}

void OrderedValues::complete(Group& group) {
  if (!ordered_) window_.push_back(&group);
}

// Takes away a group whose results were taken.
Group& OrderedValues::remove_first() {
  Group& group = *window_.pop_front();
  --admitted_;
  elements_ -= group.count;
  return group;
}

// Returns the first position in the window of a group that is done; the window's size if there is
// none.
std::size_t OrderedValues::next_group() const {
  const std::size_t end = ordered_ ? std::min<std::size_t>(window_.size(), 1) : window_.size();
  for (std::size_t i = 0; i < end; ++i) {
    if (window_[i]->done) return i;
  }
  return window_.size();
}

bool OrderedValues::is_first(const Group& group) const {
  if (has_output()) return false;
  return !ordered_ || (!window_.empty() && window_.front() == &group);
}

std::size_t OrderedValues::take(std::span<ElementRef> out) {
  std::size_t count = 0;
  while (!over_ && count < out.size() && (count == 0 || !ends_at(out[count - 1]))) {
    const std::size_t next = next_group();
    if (next == window_.size()) break;
    std::swap(window_[next], window_.front());
    Group& group = *window_.front();
    count += take_from(group, out.subspan(count));
    if (group.taken == group.count) {
      put_spent(remove_first());
      ++spent_;
    }
  }
  if (count == 0 && drained()) settle();
  return count;
}

void OrderedValues::reuse(Group& group) noexcept {
  groups().give(group);
  --spent_;
  const std::size_t left = admitted_ + spent_;
  room_made_.notify_if(left <= limit_ / 2 || (left >= limit_ && waits_for_head()));
}

std::size_t OrderedValues::take_from(Group& group, std::span<ElementRef> out) {
  std::size_t count = 0;
  bool ended = false;
  for (; !over_ && !ended && count < out.size() && group.taken < group.count; ++group.taken) {
    WorkItem& work = group.work[group.taken];
    if (ordered_) {
      ++consumed_;
    } else if (!first_time(group.first + group.taken)) {
      continue;
    }
    if (!work.status.ok() && account_.skips() &&
        work.status.error().code() != ErrorCode::cancelled) {
      Status over = account_.skip(std::exchange(good_, 0) + 1, work.status.error());
      ++skipped_;
      if (over.ok()) continue;
      work.status = std::move(over);
      over_ = true;
    } else {
      ++good_;
    }
    out[count] = value_of(group.items[group.taken], work);
    ended = ends_at(out[count++]);
  }
  return count;
}

// Notes that a result out of order was taken. Returns false if it was taken before the state was
// saved.
bool OrderedValues::first_time(std::uint64_t sequence) {
  if (sequence < consumed_) return false;
  const std::size_t at = sequence - consumed_;
  while (delivered_.size() <= at) delivered_.push_back(0);
  if (delivered_[at] != 0) return false;
  delivered_[at] = 1;
  for (; !delivered_.empty() && delivered_.front() != 0; ++consumed_) delivered_.pop_front();
  return true;
}

void OrderedValues::save(StateWriter& state) const {
  if (ordered_) return;
  state.put(delivered_.size());
  for (std::size_t i = 0; i < delivered_.size(); i += 32) {
    std::uint64_t bits = 0;
    for (std::size_t k = 0; k < 32 && i + k < delivered_.size(); ++k) {
      bits |= static_cast<std::uint64_t>(delivered_[i + k]) << k;
    }
    state.put(bits);
  }
}

void OrderedValues::restore(StateReader& state, std::uint64_t consumed, std::uint64_t skipped) {
  consumed_ = consumed;
  skipped_ = skipped;
  account_.restore({consumed, skipped});
  if (ordered_) return;
  const std::uint64_t size = state.get();
  if (size > (1U << 24)) throw Error(ErrorCode::data_loss, "the state is damaged");
  for (std::uint64_t i = 0; i < size; i += 32) {
    const std::uint64_t bits = state.get();
    for (std::uint64_t k = 0; k < 32 && i + k < size; ++k) {
      delivered_.push_back(static_cast<char>((bits >> k) & 1));
      good_ += (bits >> k) & 1;  // bad ones among them are counted already
    }
  }
}

}  // namespace penstock
