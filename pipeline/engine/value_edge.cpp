#include "pipeline/engine/value_edge.h"

namespace penstock {

ValueEdge::ValueEdge(Run& run, const Node& owner, OrderIteratorPtr input, std::uint64_t key,
                     bool ordered)
    : Edge(run, owner, std::move(input), key, 256), ordered_(ordered) {}

std::size_t ValueEdge::wait_for_room() {
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    const std::uint64_t seen = run_.waker().count();
    if (stopping()) return 0;
    {
      MutexLock lock(mutex_);
      if (admitted_ < group_limit()) break;
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
  if (!ordered_) window_.push_back(&group);
}

std::size_t ValueEdge::deliver(std::span<Item> out) {
  std::size_t count = 0;
  while (count < out.size() && !window_.empty() && window_.front()->done) {
    Group& group = *window_.front();
    for (; count < out.size() && next_ < group.count; ++next_) {
      WorkItem& work = group.work[next_];
      ++consumed_;
      if (!work.status.ok() && run_.options().on_error == OnError::skip &&
          work.status.error().code() != ErrorCode::cancelled) {
        const Status over = run_.ledger().add(work.status.error());
        if (over.ok()) continue;
        work.status = over;
      }
      out[count++] = value_of(group.items[next_], work);
    }
    if (next_ < group.count) break;
    window_.pop_front();
    --admitted_;
    next_ = 0;
    group.done = false;
    recycle(group);
  }
  run_.waker().notify_if(admitted_ <= group_limit() / 2);
  return count;
}

}  // namespace penstock
