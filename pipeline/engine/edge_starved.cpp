// What an edge does with groups that found no memory.
#include <algorithm>

#include "pipeline/engine/edge.h"

namespace penstock {

// What the group holds is given back before it waits in line.
void Edge::starve(Group& group) noexcept {
  for (std::size_t i = 0; i < std::min(group.count, group.work.size()); ++i) {
    group.work[i].element.clear();
    group.work[i].status = Status();
  }
  group.failures.clear();
  group.strays.clear();
  unstore(group);
  group.context.reset();
  wait_in_line(group);
}

void Edge::wait_in_line(Group& group) noexcept {
  try {
    run_.starved().add(*this, group);
  } catch (...) {
    break_down();
    finish(group);
  }
}

bool Edge::redo(Group& group, bool last_try) noexcept {
  std::size_t from = 0;
  {
    MutexLock lock(mutex_);
    group.redoing = true;  // until it is done, or has failed to be
    from = group.redone;
  }
  try {
    if (make_again(group, from, last_try)) return true;
  } catch (...) {
    break_down();
    return true;
  }
  MutexLock lock(mutex_);
  group.redoing = false;
  return false;
}

bool Edge::make_again(Group& group, std::size_t from, bool last_try) {
  const auto impossible = [this](const GroupContext& context) {
    return context.starved_bytes() > run_.memory().limit();
  };
  for (std::size_t at = from; at < group.count && !stopping(); note_redone(group, ++at)) {
    const std::span<WorkItem> work(group.work.data() + (stores() ? 0 : at), 1);
    const auto items = group.all_items().subspan(at, 1);
    const Places places = Places(group.places).behind(at);
    work[0].element.clear();
    work[0].status = Status();
    work[0].keep = true;
    work[0].row = Row();
    GroupContext& context =
        group.context.emplace(run_.memory(), key_, run_.retry(), run_.cancelled_flag());
    if (reads_block(items)) read_items(items, work, places, context);
    compute_items(items, work, places, context);
    if (stores()) store(group, at, work);
    if (!context.starved() || impossible(context) || std::exchange(last_try, false)) continue;
    work[0].element.clear();
    work[0].status = Status();
    if (!group.failures.empty() && group.failures.back().first == at) group.failures.pop_back();
    group.starved_codecs = context.starved_codecs();
    group.context.reset();
    return false;
  }
  return true;
}

// The consumer may take it at once, and so make room for the next.
void Edge::note_redone(Group& group, std::size_t count) {
  run_.groups.fetch_add(1, std::memory_order_acq_rel);
  bool wake = false;
  {
    MutexLock lock(mutex_);
    group.redone = count;
    redone_more(group);
    wake = waiting_ && !stores();
  }
  if (wake) changed_.notify_all();
}

bool Edge::evict() {
  Group* group = nullptr;
  {
    MutexLock lock(mutex_);
    if (stopping()) return false;
    const Undelivered last = last_undelivered();
    if (last.group == nullptr) return false;
    group = last.group;
    for (std::size_t i = last.kept; i < group->count; ++i) {
      group->work[i].element.clear();
      group->work[i].status = Status();
    }
    group->redone = last.kept;
    if (std::exchange(group->starved, true)) return true;  // it waits in line already
    group->done = false;
    group->context.reset();
    ++starved_;
    ++in_flight_;
  }
  wait_in_line(*group);
  return true;
}

}  // namespace penstock
