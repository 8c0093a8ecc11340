// The graph as it is open, epoch after epoch.
#pragma once

#include <cstdint>
#include <string_view>

#include "pipeline/core/thread_annotations.h"
#include "pipeline/order/node.h"

namespace penstock {

class Run;

/// The open graph of the epoch under way and, once all of that has been handed over, of the next,
/// which is begun ahead. One thread at a time opens and leaves; any may save.
class EpochTrees {
 public:
  /// `epochs` in all.
  EpochTrees(Run& run, std::uint64_t epochs) : run_(run), epochs_(epochs) {}
  ~EpochTrees() { close(); }

  /// Says, before anything is opened, that the run goes on from one that was through with the first
  /// epoch.
  void first_was_counted() noexcept { first_counted_ = false; }
  /// The tree of this epoch; null if it is not open.
  Segment* current() EXCLUDES(mutex_);
  /// Opens this epoch at a position; an empty one is its beginning.
  Segment& open(std::uint64_t epoch, std::string_view position) EXCLUDES(mutex_);
  /// Takes the tree of this epoch from here, for whoever takes it down.
  SegmentPtr leave() EXCLUDES(mutex_);
  /// What was begun ahead is this epoch's tree from now on, if there is something.
  void go_on(std::uint64_t epoch) EXCLUDES(mutex_);
  /// What the tree of this epoch says; nothing if it is not open.
  void save(StateWriter& state) const EXCLUDES(mutex_);
  /// Takes everything down.
  void close() noexcept EXCLUDES(mutex_);

 private:
  void watch(Segment& tree, std::uint64_t epoch) EXCLUDES(mutex_);
  void begin_ahead(std::uint64_t epoch) noexcept EXCLUDES(mutex_);

  Run& run_;
  const std::uint64_t epochs_;
  bool first_counted_ = true;  // constant once something was opened
  mutable Mutex mutex_;
  SegmentPtr current_ GUARDED_BY(mutex_);
  SegmentPtr upcoming_ GUARDED_BY(mutex_);
};

}  // namespace penstock
