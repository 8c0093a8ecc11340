// Towers and what they are fed with.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/dataset.h>
#include <penstock/device.h>
#include <penstock/staged_batch.h>

namespace penstock {

/// How N towers share a dataset that ends in batches.
enum class FeedMode : std::uint8_t {
  split,      ///< each batch is divided into N, tower by tower
  per_tower,  ///< batch k goes to tower k mod N
  sharded,    ///< tower t has batches of its own shard: elements with index mod N = t
};

/// What becomes of the r elements that are left when no full step of N batches of B is. Full steps
/// are the same in number, and in the union of their elements, in every mode. The elements left are
/// dealt so that tower t gets ⌈(r - t) / N⌉.
enum class EpochEnd : std::uint8_t {
  drop,  ///< they are lost
  pad,   ///< one more step of full batches: rows past `valid_rows` are zeros
  wrap,  ///< one more step, completed with elements from the next epoch's start, which has them too
  stop,  ///< one more step of short batches if every tower gets an element, else they are lost
};

struct FeedOptions {
  FeedMode mode = FeedMode::per_tower;
  EpochEnd end = EpochEnd::drop;
  /// False: a batch goes to whichever tower has room first, the same batches in all. For towers of
  /// different speed; not with EpochEnd::wrap, not with FeedMode::split.
  bool in_turn = true;
  int slots = 2;                    ///< see StagingOptions
  int ahead = -1;                   ///< see StagingOptions
  std::uint64_t device_memory = 0;  ///< bounds each tower's slots, in bytes; 0: unlimited
  std::uint64_t max_bytes = 0;      ///< see StagingOptions
  double watchdog_s = 60;           ///< see StagingOptions
  RunOptions run{};                 ///< slots and slot_allocator are chosen by the feed if unset
};

/// What one tower did and waited for. `stall_s + step_s + other_s` is `wall_s`, and the causes sum
/// to `stall_s`.
struct TowerStats {
  std::string device;
  std::uint64_t steps = 0;
  std::uint64_t elements = 0;
  double wall_s = 0;  ///< since the feed was made, until the end of the tower's last step
  double stall_s =
      0;  ///< its stream had nothing to do, and it had asked for a batch; the first not counted
  double step_s = 0;             ///< its stream worked on batches
  double other_s = 0;            ///< it had not asked yet, or waited for its first batch
  double copy_s = 0;             ///< batches were copied
  double copy_hidden_share = 1;  ///< … while it did not stall for them
  /// Seconds for each of "source", "stage NAME", "budget", "slots", "copy", "other tower".
  std::vector<std::pair<std::string, double>> causes{};
  /// Seconds by which the tower's last step would have ended sooner without each of these causes:
  /// the source, a stage or the copy instant, the budget or the slots unlimited, the other towers
  /// as fast as this one. Computed from the times of each batch. They are no parts of a whole:
  /// without one cause another comes to the fore, or two hide the same wait. Empty where towers are
  /// not served in turn.
  std::vector<std::pair<std::string, double>> gains{};

  double stall_share() const noexcept { return wall_s > 0 ? stall_s / wall_s : 0; }
};

/// The cause that costs a feed's towers most, by their gains.
struct FeedVerdict {
  std::string cause;     ///< as in TowerStats::gains; empty: none costs 2 % of the time
  double gain_s = 0;     ///< seconds by which the last tower would have ended sooner
  double rate_then = 0;  ///< elements a second of all towers together, had it been so
  /// … had there been half as much of it: copies twice as fast, one slot more, twice the memory, a
  /// source or stage that works half as long. Of "other tower" there is no half.
  double rate_half = 0;
};

struct FeedStats {
  std::vector<TowerStats> towers;
  FeedVerdict verdict;
  Stats run;                   ///< of the input; of tower 0's if each has its own
  std::uint64_t batches = 0;   ///< that `next` has returned to all towers together…
  std::uint64_t elements = 0;  ///< … and their valid rows; those before `restore` are counted too
  std::uint64_t lost = 0;      ///< elements that were left and not delivered
  std::uint64_t wrapped = 0;   ///< elements taken from the next epoch's start
};

/// N towers on N devices, fed ahead of time. `next` may be called from a thread for each tower, the
/// rest from any.
///
///     Feed feed(train, devices("host:0,host:1"), {.mode = FeedMode::per_tower});
///     while (std::optional<StagedBatch> batch = feed.next(tower)) {   // nothing: the epoch's end
///       batch->wait(stream);
///       …
///     }
///
/// Datasets that take turns (training, validation) have a feed each: what one has prepared waits
/// while the other is used. `share_slots` makes them use one pool of slots.
class Feed {
 public:
  class Impl;
  /// REQUIRES: a device for each tower; the same one may be named twice. Throws
  /// Error{invalid_argument} for a dataset that makes no batches, or whose batches can't be
  /// divided.
  Feed(const Dataset& dataset, std::vector<DevicePtr> devices, FeedOptions options = {});
  /// Sharded, with a dataset for each tower.
  Feed(const std::vector<Dataset>& datasets, std::vector<DevicePtr> devices,
       FeedOptions options = {});
  /// Goes on where `state` was saved: each tower gets what it was not given yet, with the same
  /// bytes. What was on its way to a tower goes to that one, also out of turn. Mode, end, rows and
  /// the number of towers must be the same; devices, slots, threads, memory and epochs may differ:
  /// one that has ended goes on with more epochs. Throws what the constructor and Dataset::restore
  /// throw, Error{invalid_argument} saying what differs, and Error{data_loss} for a damaged state.
  static Feed restore(std::string_view state, const Dataset& dataset,
                      std::vector<DevicePtr> devices, FeedOptions options = {});
  static Feed restore(std::string_view state, const std::vector<Dataset>& datasets,
                      std::vector<DevicePtr> devices, FeedOptions options = {});
  explicit Feed(std::unique_ptr<Impl> impl);
  Feed(Feed&&) noexcept;
  Feed& operator=(Feed&&) noexcept;
  /// Cancels; leases stay valid.
  ~Feed();

  /// The tower's next batch; waits for it. Nothing at the end of each epoch, once, and for ever
  /// after the last. No tower gets a batch of a step that another gets none of. Throws what went
  /// wrong, every tower at the same step, and what StagingArea::get throws.
  std::optional<StagedBatch> next(int tower);
  /// True once the last epoch's end was returned.
  bool ended(int tower) const noexcept;
  /// Ends of epochs that were returned to the tower, those before `restore` too.
  std::uint64_t epochs(int tower) const noexcept;
  /// Batches and ends of epochs that were returned to it; after `restore` counted from one that all
  /// towers had got to.
  std::uint64_t taken(int tower) const noexcept;
  int towers() const noexcept;
  Device& device(int tower) const;
  FeedStats stats() const;
  /// What `next` has returned to each tower so far, whatever is prefetched: a few hundred bytes for
  /// each input. Thread-safe. Throws what Iterator::save does.
  std::string save() const;
  /// Wakes every waiting call with Error{cancelled}.
  void cancel() noexcept;

 private:
  std::unique_ptr<Impl> impl_;
};

/// A dataset, and the towers that it is for.
struct FeedInput {
  Dataset dataset;
  std::vector<DevicePtr> devices;  ///< a tower may be left out, so that it is another input's alone
  FeedOptions options{};           ///< `slots`: what one input has at most on a device
  std::string state{};             ///< of `Feed::save`; empty: from the start
};

/// Feeds that take turns, training and validation, on one pool of `slots` slots for each device
/// that they have in common; in the order of the inputs. Each has a slot to itself on each device.
/// The others are for the one that was asked last, until an epoch's end, and what it has prepared
/// stays: neither its position nor what was prefetched is lost by using another. `device_memory`
/// bounds a pool, in bytes. Throws what Feed's constructor does, and Error{invalid_argument} for
/// fewer slots than inputs.
std::vector<Feed> share_slots(const std::vector<FeedInput>& inputs, int slots,
                              std::uint64_t device_memory = 0);

}  // namespace penstock
