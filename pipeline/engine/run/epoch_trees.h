// The open graph of each epoch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <penstock/internal/thread_annotations.h>

#include "pipeline/engine/run/activity.h"
#include "pipeline/engine/run/stage_services.h"
#include "pipeline/stage/segment.h"

namespace penstock {

/// Opens the whole graph for an epoch. `first_counted` is false if the run resumes behind one that
/// had completed the first epoch.
SegmentPtr open_graph(const Plan& plan, StageServices& stages, std::uint64_t epoch,
                      bool first_counted);

/// The open graph of the current epoch and, once all of that has been handed over, the graph of the
/// next epoch, which is begun ahead. Only one thread at a time may open, close, or move to another
/// tree. Any thread may save, which waits for none of them.
class EpochTrees {
 public:
  /// `epochs` is the total number of epochs.
  EpochTrees(const Plan& plan, StageServices& stages, Activity& activity, std::uint64_t epochs)
      : plan_(plan), stages_(stages), activity_(activity), epochs_(epochs) {}
  ~EpochTrees() { close(); }

  /// States that the run resumes between two epochs. Call this before anything is opened.
  void first_was_counted() noexcept { first_counted_ = false; }
  /// Returns the current epoch's tree; null if it is not open.
  Segment* current() EXCLUDES(mutex_);
  /// Opens this epoch at a position. An empty position is its beginning.
  Segment& open(std::uint64_t epoch, std::string_view position) EXCLUDES(mutex_);
  /// Hands out the current epoch's tree, so that the caller can take it down. Until another tree is
  /// the current one, this tree's position is saved.
  SegmentPtr leave() EXCLUDES(mutex_);
  /// Makes the tree that was begun ahead, if any, the tree of the next epoch. Forgets the position
  /// of the tree that was left. Returns the new tree, or null.
  Segment* advance() EXCLUDES(mutex_);
  /// Begins the epoch after this one ahead, once all of this tree has been handed over.
  void watch(Segment& tree, std::uint64_t epoch) EXCLUDES(mutex_);
  /// True if the position of this epoch is known: it is open, or was left.
  bool known() const EXCLUDES(mutex_);
  /// Returns this epoch's position; nothing if it is not known.
  std::string save() const EXCLUDES(mutex_);
  /// Takes both trees down.
  void close() noexcept EXCLUDES(mutex_);

 private:
  std::string position() const REQUIRES(mutex_);
  void begin_ahead(std::uint64_t epoch) noexcept EXCLUDES(mutex_);

  const Plan& plan_;
  StageServices& stages_;
  Activity& activity_;
  const std::uint64_t epochs_;
  bool first_counted_ = true;  // constant once a tree was opened
  mutable Mutex mutex_;
  SegmentPtr current_ GUARDED_BY(mutex_);
  std::optional<std::string> left_at_ GUARDED_BY(mutex_);  // while there is no current tree
  SegmentPtr upcoming_ GUARDED_BY(mutex_);
};

}  // namespace penstock
