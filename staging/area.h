// The implementation of a staging area.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <penstock/device_backend.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/staging_area.h>

#include "pipeline/core/ring.h"
#include "staging/clock.h"
#include "staging/layout.h"
#include "staging/shared_stream.h"
#include "staging/staging_pool.h"

namespace penstock {

/// The times of the events of a batch, in nanoseconds on the device's clock.
struct BatchTimes {
  std::uint64_t sequence = 0;
  std::int64_t rows = 0;
  std::int64_t put = 0;         ///< when it had a slot, just before the copy was requested
  std::int64_t staged = 0;      ///< when the copy was requested; from then on, `get` may return it
  std::int64_t copy_begin = 0;  ///< when the copy stream had the slot
  std::int64_t ready = 0;       ///< when the copy ended
  std::int64_t asked = -1;      ///< when `get` was called; -1: it never was
  std::int64_t passed = 0;      ///< when the consumer's stream passed its wait, or could have
  std::int64_t released = 0;    ///< when the consumer released it
  std::int64_t stepped = 0;     ///< when the stream that waited first passed the release
  std::int64_t ended = 0;       ///< when the last stream passed the release
};

/// An observer that the reaper calls for each delivered batch once its slot is free again.
/// REQUIRES: it must not call the area.
class BatchObserver {
 public:
  virtual ~BatchObserver() = default;
  virtual void finished(const BatchTimes& times) noexcept = 0;
  /// The device is lost.
  virtual void failed(const Status& /*error*/) noexcept {}
};

/// One batch under way, from the permit to make it until its slot is free. It has events of its
/// own, so that those of the previous batch can still be waited for. The area's mutex guards it,
/// except for the members that its producer fills between claim and `staged`.
struct Flight {
  explicit Flight(const DevicePtr& device) : begin(device), ready(device), passed(device) {}

  Event begin;
  Event ready;
  Event passed;
  std::vector<ReleasePoint> ended;
  std::size_t ends = 0;  // the number of recorded ones
  bool in_use = false;
  bool staged = false;    // `ready` is recorded
  bool copied = false;    // the reaper has seen that the copy is done
  bool has_pass = false;  // `passed` was recorded
  int holds = 0;          // held by the queue, then by the consumer, and by peeks
  bool released = false;  // no holds are left
  bool told = false;      // the observer was told that it has been used
  StagingSlot* slot = nullptr;
  bool has_slot = false;  // the slot was not given back yet
  Status error;           // an error in the batch's place
  std::vector<DeviceTensor> tensors;
  std::vector<Piece> pieces;  // kept while the copy reads them
  CopyList copies;
  std::string last_stream;  // the last stream that it was released on
  BatchTimes times;
};

/// The state that an area, its reaper, its permits and its leases share. Thread-safe.
///
/// A flight passes through these states: reserved, slot claimed, staged, leased, released, drained.
/// The slot can be claimed again as soon as the lease is released and the copy is known to be done.
/// Events order the next copy after the release. The flight, and with it the permit, is free once
/// the device has reached the release.
class StagingState : public std::enable_shared_from_this<StagingState> {
 public:
  /// `pool`: the pool to share; null: the area makes its own.
  StagingState(DevicePtr device, const Spec& batches, std::int64_t rows,
               const StagingOptions& options, std::shared_ptr<StagingPool> pool = nullptr);
  ~StagingState();

  // Producers call these.
  StagingPermit reserve() EXCLUDES(mutex_);
  /// REQUIRES: the pieces fit the layout.
  void put(StagingPermit permit, std::span<Piece> pieces, std::int64_t padded_rows)
      EXCLUDES(mutex_);
  // These put an event in the place of a batch. With a permit, the event holds it until it is
  // taken, so there are never more events than batches under way.
  void put_end(std::optional<StagingPermit> permit = std::nullopt) EXCLUDES(mutex_);
  void put_error(const Status& error, std::optional<StagingPermit> permit = std::nullopt)
      EXCLUDES(mutex_);
  /// Says that nothing follows.
  void put_stop() EXCLUDES(mutex_);
  void give_back(Flight& flight) noexcept EXCLUDES(mutex_);

  // Consumers call these.
  /// The next entry in the order: a batch, an error in its place, or an end.
  struct Taken {
    std::optional<StagedBatch> batch{};
    Status error{};
    bool over = false;  ///< nothing ever follows
    bool late = false;  ///< there was no entry in time
  };
  /// Waits for the next entry, which was asked for at `asked`, until a deadline. Throws an error
  /// that has no place in the order; the next entry is then still to come.
  Taken next(std::int64_t asked, std::int64_t until = TimeSource::kNever) EXCLUDES(mutex_);
  StagedBatch peek(std::size_t i) EXCLUDES(mutex_);
  std::size_t size() const EXCLUDES(mutex_);
  void clear() EXCLUDES(mutex_);
  void wait(Flight& flight, const StreamView& stream, const Site& site) EXCLUDES(mutex_);
  /// Waits until the copy of a leased batch has ended. Throws if something hangs or has failed.
  void await_copy(const Flight& flight) EXCLUDES(mutex_);
  void release(Flight& flight, std::span<const StreamView> streams, const Site& site) noexcept
      EXCLUDES(mutex_);

  // The reaper calls these.
  void reap() noexcept EXCLUDES(mutex_);
  void close() noexcept EXCLUDES(mutex_);
  void fail(const Status& error) noexcept EXCLUDES(mutex_);

  /// True if memory of batches on the host will return: the device works with it, or a consumer
  /// that does not wait for a batch holds it and has moved within the watchdog's time.
  bool returns_memory() EXCLUDES(mutex_);

  Device& device() const noexcept { return *device_; }
  /// Returns the number of slots that this area may have.
  int slots() const noexcept { return most_; }
  const BatchLayout& layout() const noexcept { return layout_; }
  int flights() const noexcept { return static_cast<int>(flights_.size()); }
  void observe(BatchObserver* observer) EXCLUDES(mutex_);

 private:
  /// An entry of the queue.
  struct Entry {
    enum class Kind { batch, end, error, stop };
    Kind kind = Kind::batch;
    Flight* flight = nullptr;  // an end or error may have one, too: its permit
    Status error{};
  };

  StagingSlot* take_slot() REQUIRES(mutex_);
  void give_slot(Flight& flight) REQUIRES(mutex_);
  void ask_for_slots(bool asked) REQUIRES(mutex_);
  void throw_if_over() REQUIRES(mutex_);
  /// Waits for a change, or until a deadline. If none comes within the watchdog's time, looks for
  /// work that hangs.
  void wait_for_change(std::int64_t since, std::int64_t until = TimeSource::kNever)
      REQUIRES(mutex_);
  /// Fails the area if the device's work hangs.
  void find_what_hangs() REQUIRES(mutex_);
  /// Throws if all slots are held, and `get` has waited for the watchdog's time in which no lease
  /// was taken or released.
  void refuse_if_all_are_held(std::int64_t asked) REQUIRES(mutex_);
  std::string watchdog_text() const;
  void changed() REQUIRES(mutex_);
  void stand_in(Entry entry, std::optional<StagingPermit> permit) EXCLUDES(mutex_);
  StagedBatch lease(Flight& flight) REQUIRES(mutex_);
  void drop_hold(Flight& flight) REQUIRES(mutex_);
  void recycle(Flight& flight) REQUIRES(mutex_);

  StagingSlot& claim(Flight& flight) EXCLUDES(mutex_);
  void open(StagingSlot& slot);
  void fill(Flight& flight, StagingSlot& slot, std::int64_t padded_rows);
  void copy_rows(Flight& flight, StagingSlot& slot, std::size_t part, std::int64_t all_rows);
  void pack_text(Flight& flight, StagingSlot& slot, std::size_t part);

  void reap_until_over() EXCLUDES(mutex_);
  /// Collects the events to wait for next. False if there are none and the area is closed.
  bool collect(std::vector<EventView>& events) REQUIRES(mutex_);
  void hand_over(const std::vector<Piece>& pieces);
  static void note_end(Flight& flight);
  bool advance(Flight& flight, std::vector<Piece>& dropped, std::optional<BatchTimes>& used)
      REQUIRES(mutex_);

  const DevicePtr device_;
  DeviceBackend& backend_;  // its own
  TimeSource& clock_;
  const BatchLayout layout_;
  const bool in_place_;  // batches need no copy
  const std::int64_t watchdog_ns_;
  const std::shared_ptr<StagingPool> pool_;
  const int most_;  // slots
  std::vector<std::unique_ptr<Flight>> flights_;
  std::optional<Stream> copy_;
  std::optional<Stream> guard_;
  Kick kick_;

  Mutex& mutex_;  // the one of the pool
  Signal& change_;
  StagingPool::Member member_ GUARDED_BY(mutex_);
  std::vector<Flight*> free_flights_ GUARDED_BY(mutex_);
  Ring<Entry> queue_ GUARDED_BY(mutex_);
  std::uint64_t claimed_ GUARDED_BY(mutex_) = 0;
  bool dropping_ GUARDED_BY(mutex_) = false;            // the reaper returns memory
  int waiting_ GUARDED_BY(mutex_) = 0;                  // consumers in `next`
  std::int64_t leases_changed_ GUARDED_BY(mutex_) = 0;  // when a lease was last taken or released
  BatchObserver* observer_ GUARDED_BY(mutex_) = nullptr;
  bool closed_ GUARDED_BY(mutex_) = false;
  Status failed_ GUARDED_BY(mutex_);   // permanent
  Status pending_ GUARDED_BY(mutex_);  // for the next `get`
};

}  // namespace penstock
