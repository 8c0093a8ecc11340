// Groups that found no memory.
#pragma once

#include <cstddef>
#include <vector>

#include "pipeline/core/thread_annotations.h"
#include "pipeline/engine/activity.h"

namespace penstock {

class ParallelSegment;
class Run;
struct Group;

/// Groups for which there was no memory wait here, holding none, and are done again one at a time
/// and element by element: those first that the consumer of their segment waits for, which gets
/// single values as they are made. When nothing else is at work and such a group still finds no
/// room, results that were made ahead of their time are given up (`SegmentList::evict`), but for
/// the oldest of each segment, and made again later; then batches that were begun ahead, if a codec
/// asks; only when there are none left does the element fail. So a full budget does not hang, nor
/// fail what one element at a time can do, unless values that wait as the input of a later stage's
/// group hold it, which are not given up. Thread-safe.
class StarvedLine {
 public:
  explicit StarvedLine(Run& run) : run_(run) {}

  /// Takes a group that holds nothing; its segment's `finish` is called when it is done. If it
  /// throws, the group was not taken.
  void add(ParallelSegment& segment, Group& group) EXCLUDES(mutex_);

 private:
  struct Entry {
    ParallelSegment* segment = nullptr;
    Group* group = nullptr;
    bool needed = false;
  };
  void serve() noexcept EXCLUDES(mutex_);
  bool serve_one() EXCLUDES(mutex_);
  Entry take() EXCLUDES(mutex_);
  bool redo(const Entry& entry, bool last_try);
  bool give_up(const Entry& entry, bool was_quiet) EXCLUDES(mutex_);

  Run& run_;
  Mutex mutex_;
  std::vector<Entry> entries_ GUARDED_BY(mutex_);  // in the order in which they are tried
  bool serving_ GUARDED_BY(mutex_) = false;
  // Of the one who serves:
  QuietTimer timer_;
  std::size_t tries_ = 0;  // since the run was quiet
};

}  // namespace penstock
