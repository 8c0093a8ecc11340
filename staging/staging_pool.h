// A device's slots.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <penstock/device_backend.h>

#include "pipeline/core/ring.h"
#include "pipeline/core/thread_annotations.h"
#include "staging/clock.h"

namespace penstock {

/// Memory for one batch on the device, and beside it on the host for what must be packed first.
struct StagingSlot {
  int index = 0;
  std::byte* data = nullptr;
  std::byte* packed = nullptr;  // null if nothing need be packed
  std::vector<Event> released;  // on each stream that used the last batch
  std::size_t releases = 0;     // of them, recorded
  std::optional<Event> closed;  // where slots are guarded: shut again after that
};

/// Slots of one or more areas of a device, whose states it guards by its mutex. Each area has one
/// to itself. The others go to the area that was asked last, as long as it is not at an end, and
/// stay with it until their batches are used; so what waits for its turn holds nobody up.
class StagingPool {
 public:
  struct Options {
    std::size_t bytes = 0;  ///< of a slot
    bool packed = false;    ///< host memory is needed too
    int slots = 2;
    int members = 1;                 ///< areas that will join
    std::uint64_t memory_bytes = 0;  ///< of all slots on the device; 0: unlimited
  };
  /// One area's part.
  struct Member {
    int most = 0;   ///< slots that it wants
    int taken = 0;  ///< that it has
  };

  /// Fewer slots if there is no room, which is said. Throws Error{resource_exhausted} if there is
  /// none for each member.
  StagingPool(DevicePtr device, const Options& options);
  /// REQUIRES: nothing uses the slots any more.
  ~StagingPool();
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  std::size_t bytes() const noexcept { return options_.bytes; }
  int slots() const noexcept { return static_cast<int>(slots_.size()); }
  /// That one member can have if nobody else has more than it must.
  int most() const noexcept { return slots() - options_.members + 1; }
  bool shared() const noexcept { return options_.members > 1; }

  void join(Member& member) REQUIRES(mutex);
  void leave(Member& member) REQUIRES(mutex);
  /// Null: not now. `at_end`: it keeps to its own.
  StagingSlot* take(Member& member, bool at_end) REQUIRES(mutex);
  void give_back(Member& member, StagingSlot& slot) REQUIRES(mutex);
  /// Somebody asks this member, or nobody any more.
  void ask(const Member* member) REQUIRES(mutex) { asked_ = member; }

  Mutex mutex;
  Signal changed;

 private:
  void make_slots();
  void free_slots() noexcept;
  void free_slot(const StagingSlot& slot) noexcept;

  const DevicePtr device_;
  const Options options_;
  const std::shared_ptr<Allocator> pinned_;
  std::vector<std::unique_ptr<StagingSlot>> slots_;
  Ring<StagingSlot*> free_ GUARDED_BY(mutex);
  std::vector<const Member*> members_ GUARDED_BY(mutex);
  int expected_ GUARDED_BY(mutex);  // members that have joined or will
  const Member* asked_ GUARDED_BY(mutex) = nullptr;
};

}  // namespace penstock
