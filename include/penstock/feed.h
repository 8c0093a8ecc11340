// Feeds: they bring the batches of a dataset to towers on devices.
#pragma once

#include <penstock/language.h>  // IWYU pragma: keep

#include <cstdint>
#include <functional>
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

/// How N towers share a dataset of batches. Any stage may make the batches, and any stages that
/// keep them batches may follow. The feed's constructor refuses a mode or an end that has no
/// meaning for its batches; docs/staging.md has a table.
enum class FeedMode : std::uint8_t {
  split,      ///< each batch is divided into N, tower by tower
  per_tower,  ///< batch k goes to tower k mod N
  /// Tower t gets batches of its own shard: the elements with index mod N = t. If other shards end
  /// earlier because they had more bad elements, the rest of a shard is dealt to all towers.
  sharded,
};

/// Decides about the r elements that remain when they are too few for a full step of N batches of
/// B. Every mode has the same number of full steps, with the same elements in all. The remaining
/// elements are dealt so that tower t gets ⌈(r - t) / N⌉. Where rows can't change their batch, they
/// are dealt batch by batch. Where batches may be short anywhere, N of them are a step, as they
/// are. Where batches are divided, this applies to each short batch.
enum class EpochEnd : std::uint8_t {
  drop,  ///< the remaining elements are lost
  pad,   ///< one more step of full batches: rows past `valid_rows` are zeros
  /// One more step, completed with elements from the start of the next epoch, which has them too.
  wrap,
  /// One more step of short batches if every tower gets an element; else the elements are lost.
  stop,
};

/// The towers that this process has, in a feed whose towers are divided among processes: one for
/// each device, from `first` on. A feed skips the batches of other processes if it knows them
/// by the positions of their elements. Otherwise it makes and drops them.
struct TowersHeld {
  int first = 0;  ///< the first tower of this process
  int of = 0;     ///< towers of the whole feed; 0: this process has all
};

/// The options of a feed.
struct FeedOptions {
  FeedMode mode = FeedMode::per_tower;  ///< how towers share the dataset
  EpochEnd end = EpochEnd::drop;        ///< the fate of elements that fill no step
  /// False: a batch goes to whichever tower has room first; in all, the batches are the same. For
  /// towers of different speed. Not with EpochEnd::wrap or FeedMode::split.
  bool in_turn = true;
  int slots = 2;   ///< see StagingOptions
  int ahead = -1;  ///< see StagingOptions
  /// Bounds each tower's slots, and what its device checks JPEGs with, in bytes; 0: unlimited.
  std::uint64_t device_memory = 0;
  std::uint64_t max_bytes = 1 << 20;  ///< see StagingOptions
  /// See StagingOptions. A tower also waits no longer than this for another tower.
  double watchdog_s = 60;
  TowersHeld towers_held{};  ///< not with `in_turn = false`
  /// The feed chooses slots and slot_allocator if they are unset. `exact_state` needs `in_turn`.
  RunOptions run{};
};

/// The work and the waits of one tower. `stall_s + step_s + other_s` is `wall_s`, and the causes
/// sum to `stall_s`.
struct TowerStats {
  std::string device;          ///< the tower's device, "cuda:0"
  std::uint64_t steps = 0;     ///< batches that the tower was given
  std::uint64_t elements = 0;  ///< their valid rows
  /// Seconds from the construction of the feed to the end of the tower's last step.
  double wall_s = 0;
  /// Seconds in which the tower's stream had nothing to do and the tower had asked for a batch. The
  /// wait for the first batch does not count.
  double stall_s = 0;
  double step_s = 0;   ///< seconds in which its stream worked on batches
  double other_s = 0;  ///< seconds in which it had not asked yet, or waited for its first batch
  double copy_s = 0;   ///< seconds in which batches were copied
  double copy_hidden_share = 1;  ///< share of `copy_s` in which the tower did not stall for them
  /// Seconds for each of "source", "stage NAME", "budget", "slots", "copy", "other tower".
  std::vector<std::pair<std::string, double>> causes{};
  /// Seconds by which the tower's last step would have ended sooner without each cause. Without a
  /// cause, the source, a stage or the copy takes no time, the budget or the slots are unlimited,
  /// or the other towers are as fast as this one. The times of each batch give these figures. They
  /// do not add up: without one cause another may take its place, and two causes may hide the same
  /// wait. Empty where towers are not served in turn.
  std::vector<std::pair<std::string, double>> gains{};

  /// Returns the share of `wall_s` in which the tower stalled.
  double stall_share() const noexcept { return wall_s > 0 ? stall_s / wall_s : 0; }
};

/// The cause that costs the towers of a feed most, by their gains.
struct FeedVerdict {
  std::string cause;     ///< as in TowerStats::gains; empty: no cause costs 2 % of the time
  double gain_s = 0;     ///< seconds by which the last tower would have ended sooner
  double rate_then = 0;  ///< elements a second of all towers together without the cause
  /// The same with the cause halved: copies twice as fast, one slot more, twice the memory, or a
  /// source or stage that works half as long. "other tower" has no half.
  double rate_half = 0;
};

/// The work of a feed so far.
struct FeedStats {
  std::vector<TowerStats> towers;  ///< of this process
  FeedVerdict verdict;             ///< the most expensive cause
  Stats run;                       ///< of the input; of tower 0's input if each tower has its own
  /// Batches that `next` has returned to all towers together, with those before `restore`.
  std::uint64_t batches = 0;
  /// Valid rows of these batches.
  std::uint64_t elements = 0;
  std::uint64_t lost = 0;     ///< elements that remained at an end and were not delivered
  std::uint64_t wrapped = 0;  ///< elements taken from the start of the next epoch
  int slots = 0;              ///< of each tower, as asked for
  int host_slots_wanted = 0;  ///< batches on the host with which no tower waits for another
  /// For a feed that has some of the towers: why it makes the batches of all of them, naming the
  /// stage. Empty if it makes only its own.
  std::string made_everywhere{};
};

/// N towers on N devices, with batches prepared ahead of time. Each tower may call `next` from its
/// own thread; any thread may call the rest.
///
///     Feed feed(train, devices("host:0,host:1"), {.mode = FeedMode::per_tower});
///     while (std::optional<StagedBatch> batch = feed.next(tower)) {   // nothing: the epoch's end
///       batch->wait(stream);
///       …
///     }
///
/// Datasets that take turns, such as training and validation, have a feed each. The batches that
/// one feed has prepared wait while you use the other. `share_slots` makes several feeds use one
/// pool of slots.
class Feed {
 public:
  class Impl;
  /// Makes a feed of one dataset. REQUIRES: a device for each tower; you may name the same device
  /// twice. Throws Error{invalid_argument} for a dataset that makes no batches, and for batches
  /// that can't be divided by the number of towers. It throws the same for a mode or an end that
  /// has no meaning for the batches. The error names the mode or end and the stage, and says what
  /// to do.
  Feed(const Dataset& dataset, std::vector<DevicePtr> devices, FeedOptions options = {});
  /// Makes a sharded feed, with a dataset for each tower.
  Feed(const std::vector<Dataset>& datasets, std::vector<DevicePtr> devices,
       FeedOptions options = {});
  /// Resumes a feed where `state` was saved: each tower gets the batches that it had not been
  /// given, with the same bytes. A batch on its way to a tower goes to that tower, also out of
  /// turn. Mode, end, rows and the number of towers must be the same. Devices, slots, threads,
  /// memory and epochs may differ; a feed that has ended continues if there are more epochs. An
  /// error that was delivered does not come again. A feed that was ended by an error tries the
  /// failed part again.
  ///
  /// Throws what the constructor and Dataset::restore throw. Throws Error{invalid_argument} that
  /// names the difference, or says that a feed of some towers can't be resumed in the middle of a
  /// step. Throws Error{data_loss} for a damaged state.
  static Feed restore(std::string_view state, const Dataset& dataset,
                      std::vector<DevicePtr> devices, FeedOptions options = {});
  /// Resumes a sharded feed that has a dataset for each tower.
  static Feed restore(std::string_view state, const std::vector<Dataset>& datasets,
                      std::vector<DevicePtr> devices, FeedOptions options = {});
  /// For the library.
  explicit Feed(std::unique_ptr<Impl> impl);
  Feed(Feed&&) noexcept;
  Feed& operator=(Feed&&) noexcept;
  /// Cancels the feed. Leases stay valid.
  ~Feed();

  // With `towers_held`, towers have the numbers that they have in the whole feed. Where all
  // processes have been given the same steps, each saves the same position: that of the whole feed.
  // Any of these states can be resumed with any division of the towers. If a batch that only one
  // process makes fails, that process's feed ends. The other processes don't notice; you have to
  // tell them.

  /// Returns the tower's next batch, and waits for it. Returns nothing once at the end of each
  /// epoch, and always after the last. Either all towers get a batch of a step or none does.
  ///
  /// A failure costs only the batch that failed, as for an Iterator. An element's error, or that of
  /// a batch which does not fit in a slot, is thrown to each tower once, at the same step. The next
  /// call continues after it. Some errors end the run: one error too many under OnError::skip,
  /// `cancel`, a lost device, work that hangs. Such an error is thrown to each tower once; then
  /// there is nothing for ever. Errors of the call itself take no step's place:
  /// Error{invalid_argument} for an unknown tower, and what StagingArea::get throws where every
  /// slot is held. If no batch comes because another tower of this process has neither taken nor
  /// released one for `watchdog_s`, that is Error{no_progress}, which names both towers. After 10 s
  /// the wait is logged, once for a feed.
  ///
  /// While it waits, it calls `waiting` some 20 times a second, with no mutex held. An exception
  /// that `waiting` throws leaves `next`, and the batch stays for the next call.
  std::optional<StagedBatch> next(int tower, const std::function<void()>& waiting = {});
  /// Returns true once the last epoch's end was returned, or if nothing comes any more.
  bool ended(int tower) const noexcept;
  /// Returns how many epoch ends were returned to the tower, with those before `restore`. Throws
  /// Error{invalid_argument} for a tower of another process, as `taken` and `device` do.
  std::uint64_t epochs(int tower) const;
  /// Returns how many batches, errors and epoch ends the tower was given. After `restore` it counts
  /// from a point that all towers had reached.
  std::uint64_t taken(int tower) const;
  /// Returns the number of towers in this process.
  int towers() const noexcept;
  /// Returns the tower's device.
  Device& device(int tower) const;
  /// Returns what the feed has done so far.
  FeedStats stats() const;
  /// Returns the position after everything that `next` has returned to each tower so far, without
  /// prefetched batches. It takes a few hundred bytes for each input. Thread-safe. Throws what
  /// Iterator::save throws. Throws Error{invalid_argument} if other processes have some of the
  /// towers and those here were not given the same number of steps.
  std::string save() const;
  /// Throws an Error{cancelled} to every tower once, also to one that waits.
  void cancel() noexcept;

 private:
  Impl& impl() const;
  std::unique_ptr<Impl> impl_;
};

/// Returns why each of several processes that divide a feed of this dataset would make all batches,
/// naming the stage. Returns an empty text if each would make only those of its own towers.
std::string made_everywhere(const Dataset& batches, const RunOptions& run = {});

/// A dataset, and the devices of the towers that it feeds.
struct FeedInput {
  Dataset dataset;  ///< of batches
  /// One for each tower. You may leave out a device, which then belongs to other inputs alone.
  std::vector<DevicePtr> devices;
  /// Its `slots` are the most that this input uses on a device.
  FeedOptions options{};
  /// A state of `Feed::save`; empty: from the start.
  std::string state{};
};

/// Returns feeds that take turns on one pool of `slots` slots for each device that they have in
/// common, in the order of the inputs. Use it for training and validation. Each feed keeps one slot
/// on each device to itself. The other slots belong to the feed that was asked last, until an
/// epoch's end. Using another feed loses neither the position of the first nor the batches it has
/// prefetched. `device_memory` bounds a pool, in bytes. Throws what Feed's constructor throws, and
/// Error{invalid_argument} for fewer slots than inputs.
std::vector<Feed> share_slots(const std::vector<FeedInput>& inputs, int slots,
                              std::uint64_t device_memory = 0);

}  // namespace penstock
