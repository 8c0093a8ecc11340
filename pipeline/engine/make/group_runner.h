// The contract of a runner, which makes the elements of groups.
#pragma once

#include <cstddef>

#include "pipeline/engine/make/group.h"

namespace penstock {

/// Receives the outcome of groups that were handed over. Any thread may call it. Each group has one
/// of three outcomes: done, blocked or lost.
class GroupListener {
 public:
  /// True if results are no longer needed, so that elements not yet made need not be made.
  virtual bool stopping() const noexcept = 0;
  /// The group has been read and needs nothing but a thread.
  virtual void group_ready(Group& group) noexcept = 0;
  /// The group's results are complete.
  virtual void group_done(Group& group) noexcept = 0;
  /// The group found no memory and has to be made again. It holds nothing any more.
  virtual void group_blocked(Group& group) noexcept = 0;
  /// Called in a catch block: the runner itself has failed, not an element.
  virtual void broke_down() noexcept = 0;
  /// Called after `broke_down`: this group will have no results.
  virtual void group_lost(Group& group) noexcept = 0;

 protected:
  ~GroupListener() = default;
};

/// Makes the elements of groups: reads their records, executes their programs, and puts the results
/// or errors in their places. Thread-safe, except for the group that is passed to a call.
class GroupRunner {
 public:
  virtual ~GroupRunner() = default;

  /// Returns the most elements that the next group should have.
  virtual std::size_t most() const noexcept = 0;
  /// Prepares a group for being handed over. It has items but no places yet. Determines what the
  /// group needs, and makes room in it for as many results as it has to keep.
  virtual void prepare(Group& group) = 0;
  /// Hands the group over. The listener receives the outcome, perhaps before this returns. If this
  /// throws, the group was not handed over.
  virtual void begin(Group& group) = 0;
  /// Makes a blocked group on this thread. Returns false if there is still no memory for it; then
  /// it holds nothing. With `last_try`, elements that find none get the error instead.
  virtual bool remake(Group& group, bool last_try) = 0;
  /// Returns how many groups may be under way in addition to those that keep the threads of this
  /// process busy.
  virtual std::size_t elsewhere() const noexcept { return 0; }
  /// Results are no longer needed, so groups at other processes end at once.
  virtual void stop() noexcept {}
};

}  // namespace penstock
