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
  group.redone = 0;
  try {
    run_.starved().add(*this, group);
  } catch (...) {
    break_down();
    finish(group);
  }
}

bool Edge::redo(Group& group, bool last_try) noexcept {
  try {
    return make_again(group, last_try);
  } catch (...) {
    break_down();
    return true;
  }
}

bool Edge::make_again(Group& group, bool last_try) {
  const auto impossible = [this](const GroupContext& context) {
    return context.starved_bytes() > run_.memory().limit();
  };
  for (; group.redone < group.count && !stopping(); ++group.redone) {
    const std::size_t at = group.redone;
    const std::span<WorkItem> work(group.work.data() + (stores() ? 0 : at), 1);
    const auto items = group.all_items().subspan(at, 1);
    const Places places = Places(group.places).behind(at);
    work[0].element.clear();
    work[0].status = Status();
    work[0].keep = true;
    work[0].row = Row();
    GroupContext& context = group.context.emplace(run_.memory(), key_, run_.retry());
    if (reads_block(items)) read_items(items, work, places, context);
    compute_items(items, work, places, context);
    if (stores()) store(group, at, work);
    if (!context.starved() || impossible(context) || std::exchange(last_try, false)) continue;
    work[0].element.clear();
    work[0].status = Status();
    if (!group.failures.empty() && group.failures.back().first == at) group.failures.pop_back();
    group.context.reset();
    return false;
  }
  return true;
}

bool Edge::evict() {
  Group* last = nullptr;
  {
    MutexLock lock(mutex_);
    if (stopping()) return false;
    last = last_undelivered();
    if (last == nullptr) return false;
    last->done = false;
    last->starved = true;
    ++starved_;
    ++in_flight_;
  }
  starve(*last);
  return true;
}

}  // namespace penstock
