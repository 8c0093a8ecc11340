// The place where an order segment hands items to parallel work and gets values back.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>

#include "pipeline/core/waker.h"
#include "pipeline/engine/errors/skip_ledger.h"
#include "pipeline/engine/make/executors.h"
#include "pipeline/engine/make/group_runner.h"
#include "pipeline/engine/make/read_pace.h"
#include "pipeline/engine/memory/memory.h"
#include "pipeline/engine/memory/memory_line.h"
#include "pipeline/engine/memory/step_back.h"
#include "pipeline/engine/run/activity.h"
#include "pipeline/engine/run/remote_work.h"
#include "pipeline/engine/run/run_state.h"
#include "pipeline/engine/run/tuning_log.h"
#include "pipeline/engine/segment/group_sizer.h"
#include "pipeline/engine/segment/puller.h"
#include "pipeline/engine/segment/results.h"
#include "pipeline/engine/segment/segment_list.h"
#include "pipeline/stage/node.h"
#include "pipeline/stage/open_context.h"
#include "pipeline/stage/run_services.h"
#include "pipeline/stage/segment.h"

namespace penstock {

/// Joins a puller, a group runner and results, and has the one mutex that guards them. Its own
/// thread pulls the input and hands groups over, the runner makes them, and the thread that calls
/// `pull` takes results. Where elements are made one at a time, a thread of another segment does
/// all three. Only one consumer at a time may pull or destroy it.
class ParallelSegment final : public Segment, private GroupListener {
 public:
  /// The parts of the run that it uses.
  struct Services {
    const RunState& state;
    Memory& memory;
    Activity& activity;
    Waker& waker;
    Executors& executors;
    SegmentList& segments;
    MemoryLine& line;
    StepBack& step_back;
    SkipLedger& ledger;
    TuningLog& tuning;
  };
  using MakeRunner =
      std::function<std::unique_ptr<GroupRunner>(const SegmentWork&, GroupListener&)>;
  /// Groups have at most `group_limit` elements.
  ParallelSegment(const Services& services, const SegmentOwner& owner, OrderIteratorPtr input,
                  const OpenContext& context, std::unique_ptr<Results> results,
                  std::size_t group_limit, const MakeRunner& make_runner);
  /// Stops the thread, wherever its pull may wait, and waits for groups in flight.
  ~ParallelSegment() override;

  // Segment
  std::size_t pull(std::span<ElementRef> out) override EXCLUDES(mutex_);
  void start() override EXCLUDES(mutex_);
  std::optional<std::size_t> try_pull(std::span<ElementRef> out) override EXCLUDES(mutex_);
  void let_go() noexcept override;
  void wait(std::chrono::milliseconds most) override EXCLUDES(mutex_);
  void on_exhausted(std::function<void()> callback) override EXCLUDES(mutex_);
  bool broken() const override EXCLUDES(mutex_);
  /// Saves the input's position shortly before the last result that was taken, and how many results
  /// to skip from there. Results made ahead are not saved.
  void save(StateWriter& state) const override EXCLUDES(mutex_);
  void restore(StateReader& state) override EXCLUDES(mutex_);

  /// Counts the good elements that were taken in the error account.
  void settle() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    results_->settle();
  }
  /// Makes a waiting consumer check again.
  void wake() noexcept EXCLUDES(mutex_);
  /// Makes a blocked group. Returns false if there is no memory for it. With `last_try`, items that
  /// find none get the error instead.
  bool redo(Group& group, bool last_try) noexcept;
  /// True if the consumer can get no more results until this blocked group is made.
  bool needs(const Group& group) const EXCLUDES(mutex_);
  /// Returns the pool of which the waiting consumer needs another slot; null: it needs none.
  const SlotPool* lacks_slot() const EXCLUDES(mutex_);
  /// Gives the consumer the error that there will be no such slot. With `for_good`, the segment
  /// ends.
  void fail_slot(bool for_good) noexcept EXCLUDES(mutex_);
  /// Records that a group is done. Never waits for memory: callers may hold an attempt.
  void finish(Group& group) noexcept EXCLUDES(mutex_);

 private:
  // GroupListener
  bool stopping() const noexcept override;
  void group_ready(Group& group) noexcept override EXCLUDES(mutex_);
  void group_done(Group& group) noexcept override EXCLUDES(mutex_);
  void group_blocked(Group& group) noexcept override EXCLUDES(mutex_);
  void broke_down() noexcept override EXCLUDES(mutex_);
  void group_lost(Group& group) noexcept override EXCLUDES(mutex_);

  void dispatch() noexcept;
  bool arrange_here() EXCLUDES(mutex_);
  // Called on the thread that arranges elements: the segment's, or that of `arrange_here`.
  std::size_t wait_for_room(bool begun) EXCLUDES(mutex_);
  std::optional<std::size_t> begin_arranging(bool begun) EXCLUDES(mutex_);
  bool arrange(std::size_t room) noexcept EXCLUDES(mutex_);
  bool hand_over_some(std::size_t room) EXCLUDES(mutex_);
  Group& take_group() EXCLUDES(mutex_);
  void pull_into(Group& group, std::size_t room) EXCLUDES(mutex_);
  bool skips_next() const EXCLUDES(mutex_);
  void skip(std::size_t count) EXCLUDES(mutex_);
  void take_snapshot() EXCLUDES(mutex_);
  std::size_t before_snapshot() const;
  bool hand_over(Group& group) EXCLUDES(mutex_);
  bool reserve(Group& group);
  bool at_head() const EXCLUDES(mutex_);
  class Arranging;
  void end_of_input() EXCLUDES(mutex_);

  std::size_t deliver(std::span<ElementRef> out) REQUIRES(mutex_);
  void tell_consumer() noexcept REQUIRES(mutex_);
  Demand demand() const REQUIRES(mutex_);
  bool crowded(std::size_t limit) const REQUIRES(mutex_);
  bool lacks_output() const REQUIRES(mutex_);
  bool reads_lag() const REQUIRES(mutex_);
  bool threads_idle() const REQUIRES(mutex_);
  std::size_t group_limit() const REQUIRES(mutex_);
  void read_further_ahead() noexcept REQUIRES(mutex_);
  void wait_in_line(Group& group) noexcept EXCLUDES(mutex_);
  void set_ready(Group& group, bool ready) noexcept REQUIRES(mutex_);
  void land() noexcept REQUIRES(mutex_);
  void break_down() noexcept REQUIRES(mutex_);

  static constexpr std::size_t kExactEvery = 64;
  const Services run_;
  const RunServices& stages_;
  const bool exact_;  // RunOptions::exact_state
  StageCounters& counters_;
  HeldBytes& held_;  // by the stages of the input
  GroupSizer sizer_;
  ReadPace& pace_;
  Puller puller_;           // used by the thread that arranges elements
  std::string reusable_;    // used by that thread, too: memory of an old snapshot
  Group* spent_ = nullptr;  // used by the consumer: what `let_go` empties
  std::atomic<bool> stopping_{false};

  mutable Mutex mutex_;
  const std::shared_ptr<CondVar> changed_ = std::make_shared<CondVar>();
  const std::unique_ptr<Results> results_ PT_GUARDED_BY(mutex_);
  Snapshots snapshots_ GUARDED_BY(mutex_);  // the first one is at or before the consumed position
  const std::unique_ptr<GroupRunner> runner_;
  bool started_ GUARDED_BY(mutex_) = false;
  bool arranging_ GUARDED_BY(mutex_) = false;     // a thread does, and no other may
  bool arranged_all_ GUARDED_BY(mutex_) = false;  // no thread needs to any more
  bool consumer_waits_ GUARDED_BY(mutex_) = false;
  // The segment for which the waiting consumer arranges elements; null: it is the run's caller.
  const ParallelSegment* waits_for_ GUARDED_BY(mutex_) = nullptr;
  bool late_ GUARDED_BY(mutex_) = false;  // the consumer has waited for a while
  // Counts what a waiting consumer should look at. Changed under the mutex.
  std::atomic<std::uint64_t> news_{0};
  std::uint64_t news_seen_ = 0;                   // used by the consumer
  std::size_t in_flight_ GUARDED_BY(mutex_) = 0;  // groups handed over
  std::size_t ready_ GUARDED_BY(mutex_) = 0;      // those of them that are ready
  std::size_t blocked_ GUARDED_BY(mutex_) = 0;    // those of them that are blocked
  bool reads_block_ GUARDED_BY(mutex_) = false;
  bool ops_block_ GUARDED_BY(mutex_) = false;
  bool input_ended_ GUARDED_BY(mutex_) = false;
  std::function<void()> exhausted_ GUARDED_BY(mutex_);
  // The item that holds the input's exception, if any.
  std::uint64_t threw_at_ GUARDED_BY(mutex_) = UINT64_MAX;
  Ref<Payload> no_slot_ GUARDED_BY(mutex_);    // an error, delivered once
  bool broken_ GUARDED_BY(mutex_) = false;     // the engine failed, or no slot will ever be free
  Ref<Payload> breakdown_ GUARDED_BY(mutex_);  // the error that is then delivered, once
  Thread thread_;
};

}  // namespace penstock
