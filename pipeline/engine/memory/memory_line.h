// The line of those that found no memory.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <penstock/internal/thread_annotations.h>

#include "pipeline/engine/make/executors.h"
#include "pipeline/engine/memory/step_back.h"
#include "pipeline/engine/run/activity.h"

namespace penstock {

class ParallelSegment;
struct Group;

/// Groups and threads that found no memory. Groups hold none while they wait, and are made again
/// one at a time. Groups for which the consumer of their segment waits come first.
///
/// All of them try again when memory is released. Once no work is left that could release any
/// (Activity::quiet), the last thread to rest decides which comes next:
///
/// 1. A thread that can do without the memory continues.
/// 2. Idle slots are freed.
/// 3. The run steps back, makes the element alone, and makes less ahead from then on (`StepBack`).
/// 4. The elements fail for which there is no memory.
///
/// A consumer whose segment lacks a slot comes last. If memory is scarce for no one else, the
/// caller has the slots, and may return them within 2 s.
///
/// So a full budget does not hang, and an element that would fit by itself does not fail. There is
/// one exception: runs that cannot return to their position do not step back. A group of theirs may
/// then lose elements that would fit alone.
///
/// Thread-safe.
class MemoryLine {
 public:
  /// The parts of the run that it uses.
  struct Services {
    Executors& executors;
    Activity& activity;
    Memory& memory;
    Waker& waker;
    SegmentList& segments;
    SlotPlan& slots;
    StepBack& step_back;
  };
  explicit MemoryLine(const Services& services) : run_(services) {}

  /// Adds a group that holds nothing. When the group is done, `finish` of its segment is called. If
  /// this throws, the group was not added.
  void add(ParallelSegment& segment, Group& group) EXCLUDES(mutex_);
  /// The choices of a thread for which no memory comes.
  enum class Otherwise {
    fail,
    do_without,
    wait,  ///< the run's caller does not wait for the thread
  };
  /// Waits until memory is released, or a while. Called by a thread that works for the run if it
  /// found no room; `seen` is Memory::releases() from before. Returns false if none will come.
  bool wait(std::uint64_t seen, Otherwise otherwise = Otherwise::fail) EXCLUDES(mutex_);
  /// Notes, until the result is destroyed, that this thread may wait for memory because it is
  /// ahead.
  [[nodiscard]] Counted may_be_ahead() noexcept { return Counted(ahead_); }
  /// Lets such threads try again. Called after a change that may take one to the head.
  void wake_those_ahead() noexcept {
    if (ahead_.load(std::memory_order_seq_cst) > 0) run_.memory.wake();
  }
  /// Lets the next one continue, or fail. Called without a lock, when the run has become quiet.
  void resolve() noexcept EXCLUDES(mutex_, resolving_);

 private:
  struct Entry {
    ParallelSegment* segment = nullptr;
    Group* group = nullptr;
    std::optional<std::uint64_t> tried{};  // Memory::releases() before the last try
    bool last_try = false;
  };
  struct Waiter {
    Otherwise otherwise = Otherwise::fail;
    bool over = false;  // none will come
    Waiter* next = nullptr;
  };
  enum class Turn { nobody, someone, group_or_thread, slot };

  void serve() noexcept EXCLUDES(mutex_);
  bool serve_one() EXCLUDES(mutex_);
  bool redo(Entry& entry) EXCLUDES(mutex_);
  std::optional<Entry> take(std::uint64_t seen) EXCLUDES(mutex_);
  Entry* needed() REQUIRES(mutex_);
  Waiter* waiter(Otherwise otherwise) REQUIRES(mutex_);
  Turn next_turn() REQUIRES(resolving_) EXCLUDES(mutex_);
  Turn slot_turn(bool scarce) REQUIRES(resolving_);
  void fail_one() EXCLUDES(mutex_);

  const Services run_;
  SlowMutex resolving_;  // before mutex_
  // Since when a consumer has lacked a slot, and how far the run had come by then.
  std::chrono::steady_clock::time_point lacks_slot_since_ GUARDED_BY(resolving_){};
  std::uint64_t advances_ GUARDED_BY(resolving_) = 0;
  std::atomic<int> ahead_{0};
  Mutex mutex_;
  std::vector<Entry> entries_ GUARDED_BY(mutex_);  // in the order in which they are tried
  Waiter* waiters_ GUARDED_BY(mutex_) = nullptr;   // the first of a list
  bool serving_ GUARDED_BY(mutex_) = false;
};

}  // namespace penstock
