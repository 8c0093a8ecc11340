// The slots of a device.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <penstock/device_backend.h>
#include <penstock/internal/thread_annotations.h>

#include "pipeline/core/ring.h"
#include "staging/clock.h"
#include "staging/shared_stream.h"

namespace penstock {

/// Memory for one batch on the device, and on the host for components that must be packed first.
struct StagingSlot {
  int index = 0;
  std::byte* data = nullptr;
  std::byte* packed = nullptr;         // null if nothing has to be packed
  std::vector<ReleasePoint> released;  // one for each stream that used the last batch
  std::size_t releases = 0;            // the number of these that are set
  std::optional<Event> closed;  // if slots are guarded: the slot is closed again after this event
};

/// Guards a pool, and the state of the areas that share it.
struct AreaLock {
  Mutex mutex;
  Signal changed;
};

/// The slots of one or more staging areas of a device. One slot is reserved for each area. The
/// others go to the area whose consumer last asked for a batch, unless that area has reached an
/// end. They stay with the area until their batches are used. So a batch that waits for its turn
/// does not block other areas. Not synchronised: areas hold `lock` while they use it.
class StagingPool {
 public:
  struct Options {
    std::size_t bytes = 0;  ///< of one slot
    bool packed = false;    ///< each slot needs host memory too
    int slots = 2;
    int members = 1;                 ///< the number of areas that will join
    std::uint64_t memory_bytes = 0;  ///< the limit for all slots on the device; 0: unlimited
  };
  /// The slots of one area.
  struct Member {
    int most = 0;   ///< the number of slots that it wants
    int taken = 0;  ///< the number of slots that it has
  };

  /// Allocates the slots. If there is no room for all, makes fewer and logs a warning. Throws
  /// Error{resource_exhausted} if some member would get none.
  StagingPool(DevicePtr device, const Options& options);
  /// REQUIRES: the slots are no longer in use.
  ~StagingPool();
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  const std::shared_ptr<AreaLock>& lock() const noexcept { return lock_; }

  std::size_t bytes() const noexcept { return options_.bytes; }
  int slots() const noexcept { return static_cast<int>(slots_.size()); }
  /// Returns the number of slots that one member can have while every other member has only its
  /// one.
  int most() const noexcept { return slots() - options_.members + 1; }
  bool shared() const noexcept { return options_.members > 1; }

  void join(Member& member);
  void leave(Member& member);
  /// Returns a slot, or null if the member can't have one now. `at_end`: the member has reached an
  /// end, and gets no more than its reserved slot.
  StagingSlot* take(Member& member, bool at_end);
  void give_back(Member& member, StagingSlot& slot);
  /// Sets the member whose consumer asks for a batch; null if none asks any more.
  void ask(const Member* member) { asked_ = member; }

 private:
  void make_slots();
  void free_slots() noexcept;
  void free_slot(const StagingSlot& slot) noexcept;

  const DevicePtr device_;
  const Options options_;
  const std::shared_ptr<Allocator> pinned_;
  std::vector<std::unique_ptr<StagingSlot>> slots_;
  const std::shared_ptr<AreaLock> lock_ = std::make_shared<AreaLock>();
  Ring<StagingSlot*> free_;
  std::vector<const Member*> members_;
  int expected_;  // the number of members that have joined or will join
  const Member* asked_ = nullptr;
};

}  // namespace penstock
