// Who makes the elements of groups: the contract.
#pragma once

#include <cstddef>

#include "pipeline/engine/group.h"

namespace penstock {

/// Is told what becomes of groups that were handed over. Called from any thread; each group comes
/// to one end: done, starved or lost.
class GroupListener {
 public:
  /// True if nobody waits for results any more: what has not been made yet need not be.
  virtual bool stopping() const noexcept = 0;
  /// The group has been read, and waits for nothing but a thread.
  virtual void group_ready(Group& group) noexcept = 0;
  /// Its results are there.
  virtual void group_done(Group& group) noexcept = 0;
  /// It found no memory, and is to be made again one by one. It holds nothing any more.
  virtual void group_starved(Group& group) noexcept = 0;
  /// In a catch block: the runner itself has failed, and not an element…
  virtual void broke_down() noexcept = 0;
  /// …so that nothing will come of this group.
  virtual void group_lost(Group& group) noexcept = 0;

 protected:
  ~GroupListener() = default;
};

/// Makes the elements of groups: reads their records, carries out their programs, and puts results
/// in their places, or why there are none. Thread-safe, but for the one group that a call is about.
class GroupRunner {
 public:
  virtual ~GroupRunner() = default;

  /// Elements that the group behind the last one prepared should have at most.
  virtual std::size_t most() const noexcept = 0;
  /// Gets a group ready to be handed over, which has its items but no places yet: finds out what
  /// it takes, and has it keep as many results as it needs.
  virtual void prepare(Group& group) = 0;
  /// Hands it over; the listener is told what comes of it, perhaps before this returns. If it
  /// throws, it was not handed over.
  virtual void begin(Group& group) = 0;
  /// Makes one element of a starved group on this thread. False if there is no memory for it; with
  /// `last_try`, which is then cleared, it gets the error.
  virtual bool remake(Group& group, std::size_t item, bool& last_try) = 0;
};

}  // namespace penstock
