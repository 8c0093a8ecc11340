// The inside of a feed.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/feed.h>
#include <penstock/staging_area.h>

#include "pipeline/core/thread_annotations.h"
#include "staging/clock.h"
#include "staging/feed_state.h"
#include "staging/gains.h"
#include "staging/journal.h"
#include "staging/ledger.h"
#include "staging/source.h"
#include "staging/steps.h"

namespace penstock {

/// Slots of a tower, and batches ahead of them.
struct SlotsWanted {
  int slots = 0;
  int ahead = 0;
  bool ahead_follows = false;  ///< there are more ahead where there are more slots
};

/// A thread that makes steps and puts each tower's share into its staging area. Where towers are
/// not served in turn it puts shares on a table, from which a thread for each tower takes one when
/// there is room.
class Feed::Impl {
 public:
  /// `rows`: of one tower's full batch. The devices must share a clock. `state`: the sources stand
  /// where it says. `pools`: of each tower's slots, or none. `drop_remainder`: see StepMaker.
  /// `wanted`: had the budget had room.
  Impl(std::vector<BatchSourcePtr> sources, const Spec& batches, std::int64_t rows,
       std::vector<DevicePtr> devices, FeedOptions options, FeedState state = {},
       std::vector<std::shared_ptr<StagingPool>> pools = {}, bool drop_remainder = false,
       SlotsWanted wanted = {});
  ~Impl();

  std::optional<StagedBatch> next(int tower);
  bool ended(int tower) const noexcept;
  std::uint64_t epochs(int tower) const noexcept { return tower_at(tower).ends; }
  std::uint64_t taken(int tower) const noexcept { return tower_at(tower).taken; }
  int towers() const noexcept { return static_cast<int>(towers_.size()); }
  Device& device(int tower) const { return tower_at(tower).area.device(); }
  FeedStats stats() const;
  std::string save() const;
  void fail(const Status& error) noexcept EXCLUDES(fail_mutex_, table_mutex_);
  void cancel() noexcept;

 private:
  struct Tower final : BatchObserver {
    Tower(Impl& of, int number, DevicePtr device, const Spec& batches,
          std::shared_ptr<StagingPool> pool);
    void finished(const BatchTimes& times) noexcept override;
    void failed(const Status& error) noexcept override { feed.fail(error); }

    Impl& feed;
    const int number;
    TowerLedger ledger;
    std::atomic<std::uint64_t> ends{0};  // of epochs, delivered by this run and those before
    std::atomic<std::uint64_t> taken{0};
    StagingArea area;
  };

  Tower& tower_at(int tower) const;
  /// What lies on the table: a share, an epoch's end, or an error.
  struct Dish {
    Share share{};
    std::uint64_t event = 0;  // of the journal
    std::size_t part = 0;
    int tower = FeedJournal::kNobody;  // whose it must be
    bool end = false;
    std::optional<Error> error{};
  };

  void feed_in_turn();
  void lay_table() EXCLUDES(table_mutex_);
  void lay(Dish dish) EXCLUDES(table_mutex_);
  void lay_ends(const Step& step, std::uint64_t event) EXCLUDES(table_mutex_);
  Dish take_dish(int tower) EXCLUDES(table_mutex_);
  void serve(int tower) EXCLUDES(table_mutex_);
  /// Runs a thread's body; what it throws is everybody's.
  void guarded(const std::function<void()>& body) noexcept;
  StagingPermit reserve(int tower);
  void put(int tower, StagingPermit permit, Share& share);
  /// The step's number in the journal.
  std::uint64_t make(Step& step);
  void start_threads();
  void start_journal(FeedState state, bool over);
  void make_gains();
  /// At the input's statistics, every now and then.
  void look();
  std::int64_t now() const noexcept { return clock_.now(); }
  FeedShape shape() const noexcept {
    return {options_.mode, options_.end, options_.in_turn, towers(), rows_};
  }

  const FeedOptions options_;
  const std::int64_t rows_;  // of one tower's full batch
  const SlotsWanted wanted_;
  TimeSource& clock_;
  std::vector<PullTimes> pulls_;  // of a step
  const std::vector<BatchSourcePtr> sources_;
  FeederTimeline timeline_;
  StepMaker maker_;
  FeedJournal journal_;
  std::optional<Error> cant_save_;  // constant once threads run
  // Made beforehand: cancelling needs no memory.
  const Status cancelled_error_{ErrorCode::cancelled, "the feed was cancelled"};
  std::unique_ptr<GainLedger> gains_;  // null: towers are not served in turn
  std::vector<std::unique_ptr<Tower>> towers_;
  std::atomic<std::uint64_t> last_end_;  // that end is the last one
  std::atomic<bool> cancelled_{false};

  mutable Mutex look_mutex_;
  Stats looked_at_ GUARDED_BY(look_mutex_);
  std::int64_t looked_ns_ = 0;  // the feeder's
  std::uint64_t made_ = 0;      // steps, the feeder's

  Mutex fail_mutex_;
  bool dying_ GUARDED_BY(fail_mutex_) = false;

  Mutex table_mutex_;
  Signal table_changed_;
  std::deque<Dish> table_ GUARDED_BY(table_mutex_);
  bool closing_ GUARDED_BY(table_mutex_) = false;

  std::vector<Actor> threads_;
};

}  // namespace penstock
