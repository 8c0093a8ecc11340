#include "pipeline/engine/value_edge.h"

namespace penstock {

ValueEdge::ValueEdge(Run& run, const Node& owner, OrderIteratorPtr input,
                     const OpenContext& context, bool ordered)
    : Edge(run, owner, std::move(input), context, 256), ordered_(ordered) {}

std::size_t ValueEdge::wait_for_room() {
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    const std::uint64_t seen = run_.waker().count();
    if (stopping()) return 0;
    {
      MutexLock lock(mutex_);
      if (admitted_ < group_limit() && !crowded()) break;
    }
    run_.waker().wait(seen);
  }
  count_wait(counters_->wait_output_ns, start);
  return sizer_.most();
}

void ValueEdge::admit(Group& group) {
  ++admitted_;
  if (ordered_) window_.push_back(&group);
}

void ValueEdge::finished(Group& group) {
  if (!ordered_ && group.redone == 0) window_.push_back(&group);
}

void ValueEdge::redone_more(Group& group) {
  if (!ordered_ && group.redone == 1) window_.push_back(&group);
}

std::size_t ValueEdge::next_group() const {
  const std::size_t end = ordered_ ? std::min<std::size_t>(window_.size(), 1) : window_.size();
  for (std::size_t i = 0; i < end; ++i) {
    if (window_[i]->done || window_[i]->made() > window_[i]->taken) return i;
  }
  return window_.size();
}

bool ValueEdge::is_first(const Group& group) const {
  if (next_group() < window_.size()) return false;
  return !ordered_ || (!window_.empty() && window_.front() == &group);
}

// The oldest result stays, and all in front if the consumer is about to take them.
Edge::Undelivered ValueEdge::last_undelivered() {
  if (!ordered_) return {};
  for (std::size_t i = window_.size(); i > (consumer_waits() ? 1 : 0); --i) {
    Group& group = *window_[i - 1];
    const std::size_t kept = i == 1 ? group.taken + 1 : 0;
    if (!group.redoing && group.made() > kept) return {&group, kept};
  }
  return {};
}

std::size_t ValueEdge::deliver(std::span<Item> out) {
  std::size_t count = 0;
  while (!over_ && count < out.size()) {
    const std::size_t next = next_group();
    if (next == window_.size()) break;
    std::swap(window_[next], window_.front());
    Group& group = *window_.front();
    for (; !over_ && count < out.size() && group.taken < group.made(); ++group.taken) {
      WorkItem& work = group.work[group.taken];
      if (ordered_) {
        ++consumed_;
      } else if (!first_time(group.first + group.taken)) {
        continue;
      }
      if (!work.status.ok() && run_.options().on_error == OnError::skip &&
          work.status.error().code() != ErrorCode::cancelled) {
        const Status over =
            run_.ledger().add(account_, std::exchange(good_, 0) + 1, work.status.error());
        ++skipped_;
        if (over.ok()) continue;
        work.status = over;
        over_ = true;
      } else {
        ++good_;
      }
      out[count++] = value_of(group.items[group.taken], work);
    }
    if (!group.done || group.taken < group.count) continue;
    window_.pop_front();
    --admitted_;
    group.done = false;
    recycle(group);
  }
  run_.waker().notify_if(admitted_ <= group_limit() / 2);
  if (count == 0 && drained()) settle();
  return count;
}

bool ValueEdge::first_time(std::uint64_t sequence) {
  if (sequence < consumed_) return false;
  const std::size_t at = sequence - consumed_;
  while (delivered_.size() <= at) delivered_.push_back(0);
  if (delivered_[at] != 0) return false;
  delivered_[at] = 1;
  for (; !delivered_.empty() && delivered_.front() != 0; ++consumed_) delivered_.pop_front();
  return true;
}

void ValueEdge::save_more(StateWriter& state) const {
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

void ValueEdge::restore_more(StateReader& state) {
  if (ordered_) return;
  const std::uint64_t size = state.get();
  if (size > (1U << 24)) throw Error(ErrorCode::data_loss, "the state is damaged");
  for (std::uint64_t i = 0; i < size; i += 32) {
    const std::uint64_t bits = state.get();
    for (std::uint64_t k = 0; k < 32 && i + k < size; ++k) {
      delivered_.push_back(static_cast<char>((bits >> k) & 1));
      good_ += (bits >> k) & 1;  // the bad ones among them are counted already
    }
  }
}

}  // namespace penstock
