// Groups that found no memory.
#pragma once

#include <cstddef>
#include <vector>

#include <penstock/internal/thread_annotations.h>

#include "pipeline/engine/make/executors.h"
#include "pipeline/engine/memory/step_back.h"
#include "pipeline/engine/run/activity.h"

namespace penstock {

class ParallelSegment;
struct Group;

/// A queue of groups that found no memory. They hold none while they wait, and are redone one at a
/// time, element by element. Groups for which the consumer of their segment waits come first. This
/// consumer gets single values as they are made.
///
/// If no other work runs and such a group still finds no room, the engine gives up results that
/// were made ahead, except for the oldest of each segment (`SegmentList::evict`). It makes them
/// again later. Then it frees idle slots. If that does not suffice, the run steps back and makes
/// the element alone (`StepBack`). Only then may the element fail. So a full budget does not hang,
/// and an element that would fit by itself does not fail. There is one exception: runs that cannot
/// return to their position do not step back.
///
/// Thread-safe.
class BlockedGroups {
 public:
  /// The parts of the run that it uses.
  struct Services {
    Executors& executors;
    Activity& activity;
    Memory& memory;
    SegmentList& segments;
    SlotPlan& slots;
    StepBack& step_back;
  };
  explicit BlockedGroups(const Services& services) : run_(services) {}

  /// Adds a group that holds nothing. When the group is done, `finish` of its segment is called. If
  /// this throws, the group was not added.
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
  bool give_up(const Entry& entry, bool seemed_quiet, bool was_quiet) EXCLUDES(mutex_);

  const Services run_;
  Mutex mutex_;
  std::vector<Entry> entries_ GUARDED_BY(mutex_);  // in the order in which they are tried
  bool serving_ GUARDED_BY(mutex_) = false;
  // Used only by the thread that serves:
  QuietTimer timer_;
  std::size_t tries_ = 0;  // since the run was last quiet
};

}  // namespace penstock
