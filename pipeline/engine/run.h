// One run of a plan: its threads, memory and counters.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <penstock/iterator.h>
#include <penstock/plan.h>

#include "pipeline/core/thread_annotations.h"
#include "pipeline/core/waker.h"
#include "pipeline/engine/blocking_pool.h"
#include "pipeline/engine/fingerprint.h"
#include "pipeline/engine/group_sizer.h"
#include "pipeline/engine/memory.h"
#include "pipeline/engine/read_pace.h"
#include "pipeline/engine/retry.h"
#include "pipeline/engine/skip_ledger.h"
#include "pipeline/engine/slots.h"
#include "pipeline/engine/starved.h"
#include "pipeline/engine/tuning_log.h"
#include "pipeline/engine/workers.h"
#include "pipeline/order/node.h"
#include "pipeline/order/support.h"

namespace penstock {

struct CacheStore;
class Edge;

class Run;

/// This thread is at work for a run until the guard goes, but for the time that it rests.
class AtWork {
 public:
  /// `stop` says when it is to come to its end; null: when the run is cancelled.
  explicit AtWork(Run& run, const std::atomic<bool>* stop = nullptr) noexcept;
  ~AtWork();
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

 private:
  friend class Resting;
  friend class Run;
  Run& run_;
  const std::atomic<bool>* const stop_;
  const AtWork* const outer_;
};
class Resting {
 public:
  Resting() noexcept;
  ~Resting();
  Resting(const Resting&) = delete;
  Resting& operator=(const Resting&) = delete;
};

/// The caller of the run waits for it until the guard goes: what was made ahead may be given up for
/// it, and what waits for a thread gets one.
class Waiting {
 public:
  explicit Waiting(Run& run) noexcept;
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  Run& run_;
};

/// The engine's side of a run. Thread-safe.
class Run final : public RunServices {
 public:
  /// Throws Error{resource_exhausted} if the plan's least memory exceeds the budget.
  Run(Plan plan, const RunOptions& options);
  ~Run() override;

  // RunServices
  OrderIteratorPtr values(const Node& owner, OrderIteratorPtr input, const OpenContext& context,
                          bool ordered) override;
  OrderIteratorPtr batches(const Node& node, OrderIteratorPtr input, const OpenContext& context,
                           bool drop_remainder) override;

  bool skips() const noexcept override { return options_.on_error == OnError::skip; }
  Item made(const Item& item, const OpenContext& context) override;
  std::uint64_t seed() const noexcept override { return options_.seed; }
  std::uint32_t rng_op(const Node& node) override;
  StageCounters* counters(const Node& node) override;
  std::string stage_name(const Node& node) override;
  const Program* intern(const Node& node, const Program* parent,
                        std::unique_ptr<Program> candidate) override;
  std::uint64_t fingerprint(const Node& node) const override { return Fingerprint(node).digest(); }
  std::shared_ptr<CacheStore> cache(const Node& node, const OpenContext& context) override;
  bool stopping() const noexcept override;
  void left_out(const Error& error) override { ledger_.surfaced(error); }
  void give_up(const Error& error) override { ledger_.end(error); }
  std::uint64_t memory_limit() const noexcept override { return memory_->limit(); }
  ReadContext& stream_memory() override { return *stream_memory_; }

  // For edges and the iterator.
  const RunOptions& options() const noexcept { return options_; }
  const Plan& plan() const noexcept { return plan_; }
  const Node& root() const noexcept { return *plan_.root(); }
  int threads() const noexcept { return threads_; }
  Memory& memory() noexcept { return *memory_; }
  const Memory& memory() const noexcept { return *memory_; }
  Waker& waker() noexcept { return *waker_; }
  SkipLedger& ledger() noexcept { return ledger_; }
  const SkipLedger& ledger() const noexcept { return ledger_; }
  Retry& retry() noexcept { return retry_; }
  const Retry& retry() const noexcept { return retry_; }
  /// Says, before it opens anything, that the run goes on from one that was through with the first
  /// epoch.
  void first_was_counted() noexcept { first_counted_ = false; }
  /// What stages have passed in the epochs before, and in the one with this key, if any; and back.
  void save_passed(StateWriter& state, std::optional<std::uint64_t> key) const;
  void restore_passed(StateReader& state);
  /// Opens the whole graph for an epoch.
  SegmentPtr open(std::uint64_t epoch);
  void cancel() noexcept;
  bool cancelled() const noexcept { return cancelled_.load(std::memory_order_acquire); }
  /// Takes one off a count of this run. Where there is none to take off, something was done twice,
  /// and nothing that the engine makes can be trusted any more: the run ends, and `why_stopped`
  /// says so.
  template <typename Count>
  void take_off(Count& count) noexcept {
    if (count == 0) {
      lose_count();
    } else {
      --count;
    }
  }
  /// Takes one off a count that several threads change; returns what it was before.
  int take_off(std::atomic<int>& count) noexcept;
  /// What `next` says once the run was cancelled.
  Error why_stopped() const;
  const std::atomic<bool>& cancelled_flag() const noexcept { return cancelled_; }
  /// Makes all who wait within a pull look whether they are to stop.
  void wake_pulls() noexcept EXCLUDES(edges_mutex_);
  /// Runs `work` on the compute arena, or on a thread that may wait.
  void submit(std::function<void()> work, bool may_wait);
  /// For who waits for results: work may have waited long enough for another thread.
  void look() {
    workers_->look();
    blocking_->look();
  }
  TuningLog& tuning() noexcept { return *tuning_; }
  const TuningLog& tuning() const noexcept { return *tuning_; }
  /// Slots that a batch stage has at first, of so many bytes each, texts included.
  std::size_t slots_for(const Node& node, std::uint64_t slot_bytes) const;
  /// Slots that a stage may have where reads keep everybody waiting; as many as ever if the caller
  /// said how many.
  std::size_t most_slots(const Node& node, std::uint64_t slot_bytes) const;
  /// Groups that are executed now, and threads that work for an order segment: those who may give
  /// memory back.
  std::atomic<int> active{0};
  /// Groups that are executed or wait for nothing but a thread.
  std::atomic<int> ready{0};
  /// As many of them as keep every thread busy for a while.
  int plenty() const noexcept { return 2 * threads_; }
  /// Groups that were handed over so far.
  std::atomic<std::uint64_t> groups{0};
  /// Callers that wait now for `Iterator::next`, or to go on from a saved position.
  std::atomic<int> consumers_waiting{0};
  /// Threads of order segments that wait for memory now.
  std::atomic<int> memory_waiters{0};
  /// True if nothing is at work and the consumer waits.
  bool quiet() const noexcept {
    return active.load(std::memory_order_acquire) == 0 &&
           consumers_waiting.load(std::memory_order_acquire) > 0;
  }
  /// On a thread of an order segment: waits a moment for memory. False when nobody is left who
  /// could give any back.
  bool wait_for_memory(Patience& patience);
  /// Gives up one result that was made ahead of its time. False if there is none.
  bool evict() EXCLUDES(edges_mutex_);
  /// Says that the consumer can step back: it can save its position and go on from there.
  void allow_step_back() noexcept { may_step_back_ = true; }
  /// For a codec that finds no room for so many bytes because batches were begun ahead: keeps room
  /// for such, and has the consumer open the epoch again where it stands, with fewer batches at
  /// once. False if that would gain nothing.
  bool step_back(std::uint64_t bytes) noexcept;
  /// True for the consumer's own thread, if it is to do so…
  bool steps_back() const noexcept;
  /// …which it now does: everything is taken down. What was charged comes again.
  void stepped_back() noexcept EXCLUDES(mutex_);
  StarvedLine& starved() noexcept { return starved_; }
  /// What a stage's groups were like so far, in all epochs.
  struct Learnt {
    GroupSizes sizes;
    ReadPace reads;
  };
  Learnt& learnt(const Node& owner) EXCLUDES(mutex_);
  /// Edges in whose `pull` somebody may wait.
  void add(Edge& edge) EXCLUDES(edges_mutex_);
  void remove(Edge& edge) noexcept EXCLUDES(edges_mutex_);
  std::vector<StageStats> stages() const;

 private:
  std::size_t number_of(const PlannedStage& stage) const noexcept {
    return static_cast<std::size_t>(&stage - plan_.stages().data());
  }
  void lose_count() noexcept;
  SlotLayout layout_for(const Node& node) const;

  const Plan plan_;
  RunOptions options_;
  int threads_;
  std::shared_ptr<Memory> memory_;
  std::shared_ptr<Waker> waker_ = std::make_shared<Waker>();
  std::unique_ptr<ReadContext> stream_memory_;
  SkipLedger ledger_{options_};
  StarvedLine starved_{*this};
  Retry retry_{options_};
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> lost_count_{false};
  std::atomic<bool> steps_back_{false};
  bool may_step_back_ = false;  // constant once something was opened
  bool first_counted_ = true;   // constant once something was opened

  // Constant after construction.
  std::vector<std::unique_ptr<StageCounters>> counters_;  // of each stage of the plan
  std::size_t batch_stages_ = 0;                          // places of theirs

  Mutex mutex_;
  std::map<std::tuple<const Node*, const Program*, const GatherOp*>, std::unique_ptr<const Program>>
      programs_ GUARDED_BY(mutex_);
  // Of each place of a batch stage: one that is used twice is open twice at once.
  std::map<std::pair<const Node*, std::uint64_t>, std::shared_ptr<SlotPool>> pools_
      GUARDED_BY(mutex_);
  std::map<const Node*, std::shared_ptr<CacheStore>> caches_ GUARDED_BY(mutex_);
  // Of datasets made while running, which come and go: one for each kind of stage.
  std::map<std::string, std::unique_ptr<StageCounters>> nested_counters_ GUARDED_BY(mutex_);
  std::map<const StageCounters*, Learnt> learnt_ GUARDED_BY(mutex_);

  Mutex edges_mutex_;
  std::vector<Edge*> edges_ GUARDED_BY(edges_mutex_);

  const std::shared_ptr<TuningLog> tuning_ = std::make_shared<TuningLog>();
  std::unique_ptr<BlockingPool> blocking_;
  std::unique_ptr<Workers> workers_;
};

}  // namespace penstock
