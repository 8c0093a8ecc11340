// The consumer's position in a run.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <penstock/internal/thread_annotations.h>
#include <penstock/stats.h>

#include "pipeline/engine/errors/skip_ledger.h"
#include "pipeline/engine/memory/step_back.h"
#include "pipeline/engine/run/activity.h"
#include "pipeline/engine/run/epoch_trees.h"
#include "pipeline/engine/run/run_state.h"
#include "pipeline/engine/run/stage_services.h"
#include "pipeline/engine/run/tuning_log.h"
#include "pipeline/engine/segment/leaving.h"
#include "pipeline/engine/segment/segment_list.h"
#include "pipeline/stage/segment.h"

namespace penstock {

struct SavedRun;

/// The elements that a run has delivered, and the trees that deliver them. The consumer moves it:
/// one thread at a time calls `pull`, `fail` and `next_epoch`, and may wait there as long as
/// elements take. Any thread may call the other functions. They wait for no pull, no callable and
/// no tree that is taken down, so a callable may save a state too.
class Position {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  /// The parts of the run that it uses.
  struct Services {
    const RunState& state;
    Activity& activity;
    StepBack& step_back;
    SegmentList& segments;
    SkipLedger& ledger;
    TuningLog& tuning;
    StageServices& stages;
  };
  explicit Position(const Services& services);

  /// Continues from a saved position. Call this before all other functions.
  void restore(const SavedRun& saved);
  /// True if the run can go back to a position.
  bool returns() const;
  /// Takes everything down and continues from a position in this epoch, like a restored run.
  /// Returns false if the run was cancelled and a read hangs. Only for the consumer.
  bool go_back(const SavedRun& saved) EXCLUDES(mutex_, opening_mutex_, epochs_mutex_);
  /// Returns the position as the bytes of a SavedRun. An element counts as soon as `pull` has taken
  /// it, at the end of its wait.
  std::string save() EXCLUDES(mutex_, opening_mutex_);
  /// Returns the position itself.
  SavedRun mark() EXCLUDES(mutex_, opening_mutex_);

  /// Waits for the next item until `deadline` and takes it. Returns false if this epoch has no
  /// more, and nothing if the item has not come. Throws what opening the epoch throws, and
  /// Error{cancelled}.
  std::optional<bool> pull(ElementRef& item, Deadline deadline) EXCLUDES(mutex_, opening_mutex_);
  /// Ends this epoch because of an exception. A run that restores a state of it tries again.
  void fail() EXCLUDES(mutex_);
  /// Records the audit of an epoch that was delivered to its end. Returns it as a line; nothing if
  /// the epoch failed.
  std::optional<std::string> finish_epoch() EXCLUDES(mutex_, epochs_mutex_);
  /// Returns the error of a run that skipped too many elements up to the end of this epoch, which
  /// has come; otherwise ok.
  Status judge_epoch();
  /// Returns the error that it would return if this epoch ended here.
  std::optional<Error> mostly_bad() const;
  /// Moves to the next epoch. Returns false if there is none, or if the run was cancelled.
  bool next_epoch() EXCLUDES(mutex_, opening_mutex_);
  /// Takes the trees down.
  void close() noexcept { trees_.close(); }

  /// True if this epoch delivers no more.
  bool over() const EXCLUDES(mutex_);
  std::uint64_t epoch() const noexcept { return epoch_; }
  /// Fills in the counts of elements, batches and epochs.
  void fill(Stats& stats) const EXCLUDES(epochs_mutex_);

 private:
  SavedRun state() const REQUIRES(mutex_);
  bool is_over() const REQUIRES(mutex_) { return ended_ || failed_ || epoch_ >= epochs_; }
  std::optional<bool> take(ElementRef& item) EXCLUDES(mutex_);
  void count(const Payload& payload) REQUIRES(mutex_);
  void step_back() EXCLUDES(opening_mutex_);
  Segment* open() EXCLUDES(opening_mutex_);
  SegmentPtr leave() EXCLUDES(opening_mutex_);

  const Services run_;
  const std::uint64_t epochs_;
  EpochTrees trees_;
  Leaving leaving_;                  // used by the consumer
  Segment* tree_ = nullptr;          // used by the consumer: the current tree, once it has started
  mutable SlowMutex opening_mutex_;  // held while a tree is opened at its beginning and started
  std::atomic<int> opening_{0};      // threads that open one
  // Guards what a state holds, the position of the current tree included. Nothing waits under it.
  mutable Mutex mutex_;
  bool ended_ GUARDED_BY(mutex_) = false;
  // The epoch cannot continue. It is over for the consumer, but not for a run that restores a state
  // of this one.
  bool failed_ GUARDED_BY(mutex_) = false;
  std::uint64_t errors_before_ GUARDED_BY(mutex_) = 0;  // as SavedRun::errors
  EpochStats in_epoch_ GUARDED_BY(mutex_);
  // Written under the mutex.
  std::atomic<std::uint64_t> epoch_{0};
  std::atomic<std::uint64_t> elements_{0};
  std::atomic<std::uint64_t> batches_{0};
  mutable Mutex epochs_mutex_;
  std::vector<EpochStats> finished_ GUARDED_BY(epochs_mutex_);
};

}  // namespace penstock
