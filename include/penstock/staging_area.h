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

/// Rows of a batch in host memory, which they keep alive.
struct Piece {
  Element batch{};
  std::int64_t first = 0;
  std::int64_t count = 0;
  /// The same rows are staged more than once, so that their memory was not written for this piece.
  bool shared = false;
};

struct StagingOptions {
  /// Batches on the device at once: 2 is double buffering. Fewer if there is no room.
  int slots = 2;
  /// Batches that were given room and have no slot yet; -1: slots - 1. What a run of a dataset
  /// makes ahead does not count.
  int ahead = -1;
  /// Bounds the slots' device memory; 0: unlimited.
  std::uint64_t memory_bytes = 0;
  /// Room in a slot for each component whose size is not known: required if there is one.
  std::uint64_t max_bytes = 0;
  /// After so long a wait, work that should have ended and did not is an Error{no_progress}, and
  /// asking for a batch while every slot is held an Error{out_of_range}.
  double watchdog_s = 60;
};

/// The right to put one batch. Given back when it is destroyed unused.
class StagingPermit {
 public:
  StagingPermit(StagingPermit&& other) noexcept;
  StagingPermit& operator=(StagingPermit&& other) noexcept;
  ~StagingPermit();

 private:
  friend class StagingState;
  StagingPermit(std::shared_ptr<StagingState> area, Flight& flight) noexcept
      : area_(std::move(area)), flight_(&flight) {}
  std::shared_ptr<StagingState> area_;
  Flight* flight_ = nullptr;
};

/// Batches on their way to one device, first in, first out. A batch is in or it is not: all its
/// components lie in one slot, and each batch comes out once. Thread-safe: any number of producers
/// and consumers. Nobody but a reaper thread of its own waits for the device; a batch costs no
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
  /// For batches of this spec with at most `rows` rows. Throws Error{invalid_argument} for a
  /// component of unknown size without `max_bytes`, Error{resource_exhausted} if there is no room
  /// for one slot; if there is for fewer slots than asked for it says so and has fewer.
  StagingArea(DevicePtr device, const Spec& batches, std::int64_t rows,
              StagingOptions options = {});
  StagingArea(StagingArea&&) noexcept;
  StagingArea& operator=(StagingArea&&) noexcept;
  /// Wakes all who wait, with Error{cancelled}, and lets copies end.
  ~StagingArea();

  /// Waits until another batch may be made: slots + ahead are under way at most. Ask before making
  /// one, so that no more memory is held than is of use.
  StagingPermit reserve();
  /// Waits for a slot and asks for the copy. Throws Error{out_of_range} for a batch that does not
  /// fit, naming its bytes and the room there is.
  void put(Element batch);
  /// The same of rows from several batches, one below the other; `pieces` are moved from. Rows up
  /// to `padded_rows` are zeros.
  void put(StagingPermit permit, std::span<Piece> pieces, std::int64_t padded_rows = 0);
  /// Stands in the order of batches: `get` returns nothing, or throws, when it gets there, once.
  void put_end();
  void put_error(Error error);

  /// The oldest batch; waits for it. Nothing: an end. Throws what was put or went wrong on the
  /// device, and Error{out_of_range} if every slot is held and none is released for `watchdog_s`,
  /// so that none could come; releasing one mends that. Leases may be other threads' by then.
  std::optional<StagedBatch> get();
  /// A hold on the batch that is `i` places behind the oldest, which stays; waits for it.
  StagedBatch peek(std::size_t i = 0);
  /// Batches that could be had now.
  std::size_t size() const;
  /// Drops what is staged.
  void clear();
  /// Makes every call throw `error` from now on.
  void fail(Error error);

  Device& device() const noexcept;
  int slots() const noexcept;
  std::uint64_t slot_bytes() const noexcept;

 private:
  friend class Feed;
  struct Reaper;
  explicit StagingArea(std::shared_ptr<StagingState> state);
  std::shared_ptr<StagingState> state_;
  std::unique_ptr<Reaper> reaper_;
};

}  // namespace penstock
