// The implementation of a feed.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/feed.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/staging_area.h>

#include "pipeline/core/observed_run.h"
#include "staging/clock.h"
#include "staging/feed_state.h"
#include "staging/gains.h"
#include "staging/journal.h"
#include "staging/ledger.h"
#include "staging/share_queue.h"
#include "staging/source.h"
#include "staging/steps.h"
#include "staging/towers_return.h"
#include "staging/turn_watch.h"

namespace penstock {

/// The number of a tower's slots, and of batches ahead of them.
struct SlotsWanted {
  int slots = 0;
  int ahead = 0;
  bool ahead_follows = false;  ///< `ahead` grows with `slots`
};

/// A thread that makes steps and puts each tower's share into its staging area. If towers are not
/// served in turn, it puts shares into a queue. One thread for each tower takes a share from there
/// when the tower has room.
class Feed::Impl {
 public:
  /// The parts that a feed is made of. REQUIRES: the devices share a clock, and the sources stand
  /// where the state says.
  struct Parts {
    std::vector<BatchSourcePtr> sources{};
    Spec batches{};
    std::int64_t room = 1;  ///< the most rows of a tower's batch; 0: see BatchLayout
    StepRules rules{};
    std::vector<DevicePtr> devices{};
    FeedOptions options{};
    FeedState state{};
    SlotsWanted wanted{};                     ///< as if the budget had room for them
    std::string made_everywhere{};            ///< see FeedStats
    std::shared_ptr<TowersReturn> returns{};  ///< which the runs have as their holder
    /// The pool of each tower's slots, or empty.
    std::vector<std::shared_ptr<StagingPool>> pools{};
  };
  explicit Impl(Parts parts);
  ~Impl();

  std::optional<StagedBatch> next(int tower, const std::function<void()>& waiting);
  bool ended(int tower) const noexcept;
  std::uint64_t epochs(int tower) const { return named(tower).ends; }
  std::uint64_t taken(int tower) const { return named(tower).taken; }
  int towers() const noexcept { return static_cast<int>(towers_.size()); }
  Device& device(int tower) const { return named(tower).area.device(); }
  FeedStats stats() const;
  std::string save() const;
  void fail(const Status& error) noexcept EXCLUDES(fail_mutex_);
  void cancel() noexcept;

 private:
  struct Tower final : BatchObserver {
    Tower(Impl& of, int number, DevicePtr device, const Spec& batches,
          std::shared_ptr<StagingPool> pool);
    void finished(const BatchTimes& times) noexcept override;
    void failed(const Status& error) noexcept override { feed.fail(error); }

    Impl& feed;
    const int number;        // among the towers of this process
    const std::string name;  // "tower 0 host:0"
    TowerLedger ledger;
    // Ends of epochs that were delivered, by this run and those before.
    std::atomic<std::uint64_t> ends{0};
    std::atomic<std::uint64_t> taken{0};
    std::atomic<std::int64_t> took_ns{0};  // when it took an entry last
    std::atomic<bool> over{false};         // nothing follows any more, and the tower has been told
    StagingArea area;
  };

  /// Tells the runs which towers hold their batches, for as long as these exist.
  class Returning {
   public:
    Returning(TowersReturn& returns, const std::vector<std::unique_ptr<Tower>>& towers);
    ~Returning() { returns_.set({}); }
    Returning(const Returning&) = delete;
    Returning& operator=(const Returning&) = delete;

   private:
    TowersReturn& returns_;
  };

  Tower& tower_at(int tower) const { return *towers_[static_cast<std::size_t>(tower)]; }
  /// Returns the tower that has this number in the whole feed.
  Tower& named(int number) const;
  bool is_here(int number) const noexcept { return number >= first_ && number - first_ < towers(); }
  void assign_elsewhere(std::uint64_t event, const Step& step);
  void given(int number, std::int64_t rows);
  /// Takes the next entry of the tower's area, and watches the wait for it.
  StagingState::Taken take(Tower& tower, const std::function<void()>& waiting);
  void feed_in_turn();
  // For towers that are not served in turn.
  void fill_queue();
  void tell_all(const Step& step, std::uint64_t event);
  void serve(int tower);
  /// Runs the body of a thread. If it throws, the whole feed fails with that error.
  void guarded(const std::function<void()>& body) noexcept;
  StagingPermit reserve(int tower);
  void put(int tower, StagingPermit permit, Share& share);
  /// Makes a step and returns its number in the journal.
  std::uint64_t make(Step& step);
  /// Turns a share that does not fit into a slot into an error in the step's place. Throws instead,
  /// which ends the feed, if this process has only some of the towers: the other processes don't
  /// see the error.
  void check(Step& step) const;
  /// True if the step's error only says that the feed has ended. It is not a failure of this step.
  bool was_refused(const Step& step) const noexcept {
    return step.error && step.error->code() == ErrorCode::cancelled && given_up_.load();
  }
  void start_threads();
  void start_journal(FeedState state, bool over);
  void make_gains();
  /// Reads the input's statistics, every now and then.
  void look();
  std::int64_t now() const noexcept { return clock_.now(); }
  /// Returns the source of this process's first tower, if each tower has its own.
  BatchSource& own_source() const {
    return *sources_[static_cast<std::size_t>(first_) % sources_.size()];
  }
  FeedShape shape() const noexcept {
    return {options_.mode, options_.end, options_.in_turn, all_, room_};
  }

  const FeedOptions options_;
  const std::int64_t room_;  // the most rows of a tower's batch
  const SlotsWanted wanted_;
  const std::string made_everywhere_;
  const int all_;    // towers of all processes
  const int first_;  // the first one of this process
  TimeSource& clock_;
  std::vector<PullTimes> pulls_;  // of the current step
  const std::vector<BatchSourcePtr> sources_;
  FeederTimeline timeline_;
  const std::shared_ptr<TowersReturn> returns_;
  StepMaker maker_;
  FeedJournal journal_;
  ShareQueue queue_;
  TurnWatch turns_;
  std::optional<Error> cant_save_;  // does not change once threads run
  // Made in advance, so that cancelling allocates nothing.
  const Status cancelled_error_{ErrorCode::cancelled, "the feed was cancelled"};
  // Stands in the place of a step that failed in the run before.
  const Error left_out_{ErrorCode::data_loss,
                        "this element failed before the feed was restored, and is skipped"};
  std::unique_ptr<GainLedger> gains_;  // null if towers are not served in turn
  std::vector<std::unique_ptr<Tower>> towers_;
  std::optional<Returning> returning_;
  std::atomic<std::uint64_t> last_end_;  // the number of the last epoch's end
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> given_up_{false};  // the sources are cancelled

  mutable Mutex look_mutex_;
  Stats looked_at_ GUARDED_BY(look_mutex_);
  std::int64_t looked_ns_ = 0;  // used by the feeder only
  std::uint64_t made_ = 0;      // steps; used by the feeder only

  Mutex fail_mutex_;
  bool dying_ GUARDED_BY(fail_mutex_) = false;

  std::vector<Actor> threads_;
  std::unique_ptr<ObservedRun> observed_;  // the last member: it reads the others
};

}  // namespace penstock
