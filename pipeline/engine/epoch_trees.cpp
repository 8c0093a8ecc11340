#include "pipeline/engine/epoch_trees.h"

#include "pipeline/engine/run.h"

namespace penstock {

Segment* EpochTrees::current() {
  MutexLock lock(mutex_);
  return current_.get();
}

Segment& EpochTrees::open(std::uint64_t epoch, std::string_view position) {
  SegmentPtr opened = run_.open(epoch, first_counted_);
  if (!position.empty()) {
    // Some stages redo work to get there. This thread waits for it, or does it itself.
    const Counted waits = run_.activity().consumer_waits();
    const AtWork at_work(run_.activity());
    StateReader state(position);
    opened->restore(state);
  }
  Segment& tree = *opened;
  {
    MutexLock lock(mutex_);
    current_ = std::move(opened);
  }
  watch(tree, epoch);
  return tree;
}

SegmentPtr EpochTrees::leave() {
  MutexLock lock(mutex_);
  return std::move(current_);
}

void EpochTrees::go_on(std::uint64_t epoch) {
  Segment* tree = nullptr;
  {
    MutexLock lock(mutex_);
    if (upcoming_) current_.swap(upcoming_);
    tree = current_.get();
  }
  if (tree != nullptr) watch(*tree, epoch);
}

void EpochTrees::save(StateWriter& state) const {
  MutexLock lock(mutex_);
  if (current_) current_->save(state);
}

void EpochTrees::close() noexcept {
  SegmentPtr tree;
  {
    MutexLock lock(mutex_);
    tree.swap(current_);
  }
  tree.reset();  // may still be opening the next epoch
  {
    MutexLock lock(mutex_);
    tree.swap(upcoming_);
  }
}

// When all of this epoch has been handed over, the thread of the old tree's segment begins the next
// epoch. Taking that tree down waits for this thread, so each epoch is begun once. Call this
// without the lock, because the callback may run at once.
void EpochTrees::watch(Segment& tree, std::uint64_t epoch) {
  if (epoch + 1 >= epochs_) return;
  tree.on_exhausted([this, epoch] { begin_ahead(epoch + 1); });
}

void EpochTrees::begin_ahead(std::uint64_t epoch) noexcept {
  const AtWork at_work(run_.activity());
  SegmentPtr opened;
  try {
    opened = run_.open(epoch, first_counted_);
    opened->start();
  } catch (...) {
    return;  // the consumer will open it and get the error
  }
  MutexLock lock(mutex_);
  upcoming_.swap(opened);
}

}  // namespace penstock
