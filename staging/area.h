// The implementation of a staging area.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include <penstock/device_backend.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/staging_area.h>

#include "staging/area_consumer.h"
#include "staging/area_producer.h"
#include "staging/area_reaper.h"
#include "staging/area_watch.h"
#include "staging/flight_queue.h"
#include "staging/layout.h"
#include "staging/staging_pool.h"

namespace penstock {

/// The state that an area, its reaper, its permits and its leases share. Thread-safe.
class StagingState : public std::enable_shared_from_this<StagingState> {
 public:
  /// `pool`: the pool to share; null: the area makes its own.
  StagingState(DevicePtr device, const Spec& batches, std::int64_t rows,
               const StagingOptions& options, std::shared_ptr<StagingPool> pool = nullptr);
  ~StagingState();

  // Producers call these.
  StagingPermit reserve() { return {shared_from_this(), producer_.reserve()}; }
  /// REQUIRES: the pieces fit the layout.
  void put(StagingPermit permit, std::span<Piece> pieces, std::int64_t padded_rows) {
    producer_.put(permit.flight_, pieces, padded_rows);
  }
  // These put an event in the place of a batch. With a permit, the event holds it until it is
  // taken, so there are never more events than batches under way.
  void put_end(std::optional<StagingPermit> permit = std::nullopt);
  void put_error(const Status& error, std::optional<StagingPermit> permit = std::nullopt);
  /// Says that nothing follows.
  void put_stop();
  void give_back(Flight& flight) noexcept { producer_.give_back(flight); }

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
  Taken next(std::int64_t asked, std::int64_t until = TimeSource::kNever);
  StagedBatch peek(std::size_t i) { return {shared_from_this(), consumer_.peek(i)}; }
  std::size_t size() const EXCLUDES(watch_.mutex);
  void clear() { consumer_.clear(); }
  void wait(Flight& flight, const StreamView& stream, const Site& site) {
    consumer_.wait(flight, stream, site);
  }
  /// Waits until the copy of a leased batch has ended. Throws if something hangs or has failed.
  void await_copy(const Flight& flight) { consumer_.await_copy(flight); }
  void release(Flight& flight, std::span<const StreamView> streams, const Site& site) noexcept {
    consumer_.release(flight, streams, site);
  }

  // The reaper's thread calls these.
  void reap() noexcept { reaper_.run(); }
  void close() noexcept EXCLUDES(watch_.mutex);

  void fail(const Status& error) noexcept EXCLUDES(watch_.mutex);
  /// True if memory of batches on the host will return.
  /// A batch goes from the consumer to the reaper, so these are asked in this order.
  bool returns_memory() { return consumer_.returns_memory() || reaper_.returns_memory(); }
  /// True if batches here take memory of the host.
  bool has_memory() { return consumer_.has_memory() || reaper_.returns_memory(); }
  Device& device() const noexcept { return *watch_.device(); }
  /// Returns the number of slots that this area may have.
  int slots() const noexcept { return slots_; }
  const BatchLayout& layout() const noexcept { return layout_; }
  /// Returns the number of batches that may be under way.
  int flights() const noexcept { return slots_ + ahead_; }
  void observe(BatchObserver* observer) { reaper_.observe(observer); }

 private:
  void stand_in(FlightQueue::Entry entry, std::optional<StagingPermit> permit);

  const DevicePtr device_;
  const BatchLayout layout_;
  const std::shared_ptr<StagingPool> pool_;
  const int slots_;
  const int ahead_;
  std::optional<Stream> copy_;
  std::optional<Stream> guard_;
  FlightQueue queue_ GUARDED_BY(watch_.mutex);
  AreaWatch watch_;
  AreaProducer producer_;
  AreaConsumer consumer_;
  AreaReaper reaper_;
};

}  // namespace penstock
