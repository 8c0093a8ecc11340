// The open graph of each epoch.
#pragma once

#include <cstdint>
#include <string_view>

#include "pipeline/core/thread_annotations.h"
#include "pipeline/order/node.h"

namespace penstock {

class Run;

/// The open graph of the current epoch and, once all of that has been handed over, the graph of the
/// next epoch, which is begun ahead. Only one thread at a time may open or leave. Any thread may
/// save.
class EpochTrees {
 public:
  /// `epochs` is the total number of epochs.
  EpochTrees(Run& run, std::uint64_t epochs) : run_(run), epochs_(epochs) {}
  ~EpochTrees() { close(); }

  /// States that the run resumes one that had already completed the first epoch. Call this before
  /// anything is opened.
  void first_was_counted() noexcept { first_counted_ = false; }
  /// Returns the current epoch's tree; null if it is not open.
  Segment* current() EXCLUDES(mutex_);
  /// Opens this epoch at a position. An empty position is its beginning.
  Segment& open(std::uint64_t epoch, std::string_view position) EXCLUDES(mutex_);
  /// Hands out the current epoch's tree, so that the caller can take it down.
  SegmentPtr leave() EXCLUDES(mutex_);
  /// Makes the tree that was begun ahead, if any, the tree of this epoch.
  void go_on(std::uint64_t epoch) EXCLUDES(mutex_);
  /// Saves the position of this epoch's tree; nothing if it is not open.
  void save(StateWriter& state) const EXCLUDES(mutex_);
  /// Takes both trees down.
  void close() noexcept EXCLUDES(mutex_);

 private:
  void watch(Segment& tree, std::uint64_t epoch) EXCLUDES(mutex_);
  void begin_ahead(std::uint64_t epoch) noexcept EXCLUDES(mutex_);

  Run& run_;
  const std::uint64_t epochs_;
  bool first_counted_ = true;  // constant once a tree was opened
  mutable Mutex mutex_;
  SegmentPtr current_ GUARDED_BY(mutex_);
  SegmentPtr upcoming_ GUARDED_BY(mutex_);
};

}  // namespace penstock
