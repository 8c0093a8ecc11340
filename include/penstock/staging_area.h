// A device's ring of slots, in which batches wait for their tower.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <penstock/device.h>
#include <penstock/element.h>
#include <penstock/spec.h>
#include <penstock/staged_batch.h>

namespace penstock {

/// Rows of a batch in host memory. The piece keeps them alive.
struct Piece {
  Element batch{};         ///< the batch
  std::int64_t first = 0;  ///< the first of the rows
  std::int64_t count = 0;  ///< how many
  /// True if the same rows are staged more than once, so that their memory was not written for this
  /// piece.
  bool shared = false;
  /// True for a batch as it is, whose components may have other numbers of rows than `count`, the
  /// number of its samples.
  bool whole = false;
};

/// The options of a staging area.
struct StagingOptions {
  /// Batches on the device at once: 2 is double buffering. There are fewer if there is no room.
  int slots = 2;
  /// Batches that have a permit and no slot yet; -1: slots - 1. Batches that a run of a dataset
  /// makes ahead do not count.
  int ahead = -1;
  /// Bounds the slots' device memory, in bytes; 0: unlimited.
  std::uint64_t memory_bytes = 0;
  /// Bytes in a slot for each component whose size is not known: byte strings, padded batches.
  /// Image records that the device decodes need more: see Reconstructor.
  std::uint64_t max_bytes = 1 << 20;
  /// Seconds after which a wait for work that should have ended is an Error{no_progress}. The same
  /// holds for a request of a batch while every slot is held.
  double watchdog_s = 60;
};

/// The right to put one batch. Destruction gives it back if it was not used.
class StagingPermit {
 public:
  StagingPermit(StagingPermit&& other) noexcept;
  StagingPermit& operator=(StagingPermit&& other) noexcept;
  ~StagingPermit();

 private:
  friend class StagingArea;
  friend class StagingState;
  StagingPermit(std::shared_ptr<StagingState> area, Flight& flight) noexcept
      : area_(std::move(area)), flight_(&flight) {}
  std::shared_ptr<StagingState> area_;
  Flight* flight_ = nullptr;
};

/// Batches on their way to one device, first in, first out. A batch is in or it is not: all its
/// components lie in one slot, and each batch comes out once. Thread-safe: any number of producers
/// and consumers. Only a reaper thread of the area waits for the device, and a batch costs no
/// allocation.
///
///     StagingArea area(device, dataset.spec(), 64);
///     area.put(iterator.next().value());               // returns when the copy has been asked for
///     std::optional<StagedBatch> batch = area.get();   // nothing: the end
///     batch->wait(stream);
///     step((*batch)["image"], (*batch)["label"], stream);
///     batch->release(stream);
///
/// Where the device is unified batches are not copied, and a slot is the batch's own memory. Leases
/// may outlive the area.
class StagingArea {
 public:
  /// Makes an area for batches of this spec with at most `rows` rows. Throws
  /// Error{invalid_argument} for a component of unknown size if `max_bytes` is 0. Throws
  /// Error{resource_exhausted} if there is no room for one slot. If there is room for some of the
  /// slots, the area logs it and has fewer.
  StagingArea(DevicePtr device, const Spec& batches, std::int64_t rows,
              StagingOptions options = {});
  StagingArea(StagingArea&&) noexcept;
  StagingArea& operator=(StagingArea&&) noexcept;
  /// Wakes all waiting calls with Error{cancelled}, and lets copies end.
  ~StagingArea();

  /// Waits until another batch may be made: at most slots + ahead are under way. Call it before you
  /// make a batch, so that no more memory is held than is of use.
  StagingPermit reserve();
  /// Waits for a slot and enqueues the copy. Throws Error{out_of_range} for a batch that does not
  /// fit, naming its bytes and the room.
  void put(Element batch);
  /// Puts rows from several batches, one below the other, as one batch; `pieces` are moved from.
  /// Rows up to `padded_rows` are zeros.
  void put(StagingPermit permit, std::span<Piece> pieces, std::int64_t padded_rows = 0);
  /// Puts an end in the order of batches: `get` returns nothing once when it reaches it, and then
  /// continues after it.
  void put_end();
  /// Puts an error in the order of batches: `get` throws it once when it reaches it, and then
  /// continues after it.
  void put_error(Error error);

  /// Returns the oldest batch, and waits for it. Nothing: an end. Throws the error that was put or
  /// that occurred on the device. Throws Error{no_progress} if every slot is held and none is
  /// released for `watchdog_s`, so that no batch could come; after a release it works again. The
  /// leases may belong to other threads.
  std::optional<StagedBatch> get();
  /// Returns a lease of the batch that is `i` places after the oldest, and waits for it. The batch
  /// stays in the area. Throws Error{invalid_argument} unless there are more than `i` slots.
  StagedBatch peek(std::size_t i = 0);
  /// Returns the number of batches that `get` could return now.
  std::size_t size() const;
  /// Drops the staged batches.
  void clear();
  /// Makes every call throw `error` from now on.
  void fail(Error error);

  /// Returns the area's device.
  Device& device() const;
  /// Returns the number of slots.
  int slots() const noexcept;
  /// Returns the device memory of one slot, in bytes.
  std::uint64_t slot_bytes() const noexcept;

 private:
  friend class Feed;
  struct Reaper;
  explicit StagingArea(std::shared_ptr<StagingState> state);
  StagingState& state() const;
  std::shared_ptr<StagingState> state_;
  std::unique_ptr<Reaper> reaper_;
};

}  // namespace penstock
