#include "pipeline/engine/run/epoch_trees.h"

#include <utility>

#include "pipeline/stage/node.h"
#include "pipeline/stage/open_context.h"

namespace penstock {

SegmentPtr open_graph(const Plan& plan, StageServices& stages, std::uint64_t epoch,
                      bool first_counted) {
  OpenContext context{stages, epoch};
  context.first_counted = first_counted;
  OrderIteratorPtr top = plan.root()->open(context);
  if (top->segment() == nullptr) top = stages.values(*plan.root(), std::move(top), context, true);
  SegmentPtr segment(top->segment());
  (void)top.release();
  return segment;
}

Segment* EpochTrees::current() {
  MutexLock lock(mutex_);
  return current_.get();
}

Segment& EpochTrees::open(std::uint64_t epoch, std::string_view position) {
  const AtWork at_work(activity_);
  SegmentPtr opened = open_graph(plan_, stages_, epoch, first_counted_);
  if (!position.empty()) {
    // Some stages redo work to get there. This thread waits for it, or does it itself.
    const Counted waits = activity_.consumer_waits();
    StateReader state(position);
    opened->restore(state);
  }
  Segment& tree = *opened;
  {
    MutexLock lock(mutex_);
    current_ = std::move(opened);
    left_at_.reset();
  }
  watch(tree, epoch);
  return tree;
}

SegmentPtr EpochTrees::leave() {
  MutexLock lock(mutex_);
  left_at_ = position();
  return std::move(current_);
}

Segment* EpochTrees::advance() {
  MutexLock lock(mutex_);
  left_at_.reset();
  current_ = std::move(upcoming_);
  return current_.get();
}

bool EpochTrees::known() const {
  MutexLock lock(mutex_);
  return current_ || left_at_;
}

std::string EpochTrees::save() const {
  MutexLock lock(mutex_);
  return position();
}

std::string EpochTrees::position() const {
  if (left_at_) return *left_at_;
  StateWriter state;
  if (current_) current_->save(state);
  return state.take();
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
  const AtWork at_work(activity_);
  SegmentPtr opened;
  try {
    opened = open_graph(plan_, stages_, epoch, first_counted_);
    opened->start();
  } catch (...) {
    return;  // the consumer will open it and get the error
  }
  MutexLock lock(mutex_);
  upcoming_.swap(opened);
}

}  // namespace penstock
