// The inside of a staging area.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <penstock/device_backend.h>
#include <penstock/staging_area.h>

#include "pipeline/core/ring.h"
#include "pipeline/core/thread_annotations.h"
#include "staging/clock.h"
#include "staging/layout.h"
#include "staging/staging_pool.h"

namespace penstock {

/// When things happened to a batch, in nanoseconds on the device's clock.
struct BatchTimes {
  std::uint64_t sequence = 0;
  std::int64_t rows = 0;
  std::int64_t put = 0;         ///< it had a slot; the copy is asked for
  std::int64_t staged = 0;      ///< the copy was asked for, so that `get` may give it out
  std::int64_t copy_begin = 0;  ///< the copy stream had the slot
  std::int64_t ready = 0;       ///< the copy had ended
  std::int64_t asked = -1;      ///< `get` was called; -1: it never was
  std::int64_t passed = 0;      ///< the consumer's stream was past its wait, or might have been
  std::int64_t released = 0;    ///< the consumer let go of it
  std::int64_t stepped = 0;     ///< the stream that waited first was past its release
  std::int64_t ended = 0;       ///< and so was the last
};

/// Told of every batch that was delivered when its slot is free again, by the reaper. REQUIRES:
/// must not call the area.
class BatchObserver {
 public:
  virtual ~BatchObserver() = default;
  virtual void finished(const BatchTimes& times) noexcept = 0;
  /// The device is lost.
  virtual void failed(const Status& /*error*/) noexcept {}
};

/// One batch under way, from the permit to make it until its slot is free. The events are its own,
/// so that those of the batch before may still be waited for. Guarded by the area's mutex, but for
/// what is filled by its producer between claim and `staged`.
struct Flight {
  explicit Flight(const DevicePtr& device) : begin(device), ready(device), passed(device) {}

  Event begin;
  Event ready;
  Event passed;
  std::vector<Event> ended;
  std::size_t ends = 0;  // of them, recorded
  bool in_use = false;
  bool staged = false;    // ready is recorded
  bool copied = false;    // and was seen by the reaper
  bool has_pass = false;  // `passed` was recorded
  int holds = 0;          // the queue's, then the consumer's, and those of peeks
  bool released = false;  // no holds are left
  StagingSlot* slot = nullptr;
  bool has_slot = false;  // it was not given back yet
  Status error;           // in the batch's place
  std::vector<DeviceTensor> tensors;
  std::vector<Piece> pieces;  // kept while they are read
  CopyList copies;
  std::string last_stream;  // that it was released on
  BatchTimes times;
};

/// State shared by an area, its reaper, its permits and its leases. Thread-safe.
///
/// A flight goes: reserved, claimed a slot, staged, leased, released, drained. The slot can be
/// claimed again as soon as the lease is released and the copy was seen to be done: the next copy
/// is ordered behind the release by events. The flight, and with it the permit, is free when the
/// device has got there.
class StagingState : public std::enable_shared_from_this<StagingState> {
 public:
  /// `pool`: null for one of its own.
  StagingState(DevicePtr device, const Spec& batches, std::int64_t rows,
               const StagingOptions& options, std::shared_ptr<StagingPool> pool = nullptr);
  ~StagingState();

  // Producers.
  StagingPermit reserve() EXCLUDES(mutex_);
  void put(StagingPermit permit, std::span<Piece> pieces, std::int64_t padded_rows)
      EXCLUDES(mutex_);
  void put_end() EXCLUDES(mutex_);
  void put_error(Error error) EXCLUDES(mutex_);
  void give_back(Flight& flight) noexcept EXCLUDES(mutex_);

  // Consumers.
  std::optional<StagedBatch> get() EXCLUDES(mutex_);
  StagedBatch peek(std::size_t i) EXCLUDES(mutex_);
  std::size_t size() const EXCLUDES(mutex_);
  void clear() EXCLUDES(mutex_);
  void wait(Flight& flight, StreamView stream, const Site& site) EXCLUDES(mutex_);
  /// Waits until the copy of a leased batch has ended, or something hangs or has failed.
  void await_copy(const Flight& flight) EXCLUDES(mutex_);
  void release(Flight& flight, std::span<const StreamView> streams, const Site& site) noexcept
      EXCLUDES(mutex_);

  // The reaper.
  void reap() noexcept EXCLUDES(mutex_);
  void close() noexcept EXCLUDES(mutex_);
  void fail(const Status& error) noexcept EXCLUDES(mutex_);

  Device& device() const noexcept { return *device_; }
  /// That this area may have.
  int slots() const noexcept { return most_; }
  const BatchLayout& layout() const noexcept { return layout_; }
  int flights() const noexcept { return static_cast<int>(flights_.size()); }
  void observe(BatchObserver* observer) EXCLUDES(mutex_);

 private:
  /// A place in the queue: a batch, or with a null flight an end or an error.
  struct Entry {
    Flight* flight = nullptr;
    Status error;
  };

  StagingSlot* take_slot() REQUIRES(mutex_);
  void give_slot(Flight& flight) REQUIRES(mutex_);
  void ask_for_slots(bool asked) REQUIRES(mutex_);
  void throw_if_over() REQUIRES(mutex_);
  /// Waits for a change; after the watchdog's time without one looks for work that hangs.
  void wait_for_change(std::int64_t since) REQUIRES(mutex_);
  void find_what_hangs() REQUIRES(mutex_);
  /// Once `get` has waited for the watchdog's time and no lease came or went in it.
  void refuse_if_all_are_held(std::int64_t asked) REQUIRES(mutex_);
  std::string watchdog_text() const;
  void changed() REQUIRES(mutex_);
  StagedBatch lease(Flight& flight) REQUIRES(mutex_);
  void drop_hold(Flight& flight) REQUIRES(mutex_);
  void recycle(Flight& flight) REQUIRES(mutex_);

  StagingSlot& claim(Flight& flight) EXCLUDES(mutex_);
  void open(StagingSlot& slot);
  void fill(Flight& flight, StagingSlot& slot, std::int64_t padded_rows);
  void copy_rows(Flight& flight, StagingSlot& slot, std::size_t part, std::int64_t padded_rows);
  void pack_text(Flight& flight, StagingSlot& slot, std::size_t part);

  void reap_until_over() EXCLUDES(mutex_);
  /// What to wait for next; false if there is nothing and the area is closed.
  bool collect(std::vector<EventView>& events) REQUIRES(mutex_);
  bool advance(Flight& flight, std::vector<Piece>& dropped) REQUIRES(mutex_);

  const DevicePtr device_;
  DeviceBackend& backend_;  // its own
  TimeSource& clock_;
  const BatchLayout layout_;
  const bool in_place_;  // batches need not be copied
  const std::int64_t watchdog_ns_;
  const std::shared_ptr<StagingPool> pool_;
  const int most_;  // slots
  std::vector<std::unique_ptr<Flight>> flights_;
  std::optional<Stream> copy_;
  std::optional<Stream> guard_;
  Kick kick_;

  Mutex& mutex_;  // the pool's
  Signal& change_;
  StagingPool::Member member_ GUARDED_BY(mutex_);
  std::vector<Flight*> free_flights_ GUARDED_BY(mutex_);
  Ring<Entry> queue_ GUARDED_BY(mutex_);
  std::uint64_t claimed_ GUARDED_BY(mutex_) = 0;
  std::int64_t leases_changed_ GUARDED_BY(mutex_) = 0;  // when one came or went last
  BatchObserver* observer_ GUARDED_BY(mutex_) = nullptr;
  bool closed_ GUARDED_BY(mutex_) = false;
  Status failed_ GUARDED_BY(mutex_);   // for good
  Status pending_ GUARDED_BY(mutex_);  // for the next `get`
};

}  // namespace penstock
