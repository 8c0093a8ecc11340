// The byte budget of a run, and its recycled buffers.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include <penstock/buffer.h>
#include <penstock/error.h>
#include <penstock/internal/thread_annotations.h>

#include "pipeline/engine/memory/held_bytes.h"

namespace penstock {

/// The account of a run's memory: its slots, records and intermediate tensors, and the memory of
/// codecs except for their tables and a few rows. There are three amounts. `live` bytes are in use.
/// `reserved` bytes are promised to work that was dispatched. `idle` bytes are in buffers that wait
/// to be reused. Always live + reserved <= limit and live + idle <= limit, so freeing idle buffers
/// suffices to keep a promise. Thread-safe. Buffers may outlive the run, as they share this object.
class Memory : public std::enable_shared_from_this<Memory> {
 public:
  /// A limit above the largest possible allocation is reduced to that.
  Memory(std::uint64_t limit, Allocator& allocator)
      : limit_(std::min<std::uint64_t>(limit, PTRDIFF_MAX)), allocator_(allocator) {}
  ~Memory();

  std::uint64_t limit() const noexcept { return limit_; }
  /// The bytes that stages hold, and groups take.
  HeldBytesOfRun& held() noexcept { return held_; }
  std::uint64_t used() const EXCLUDES(mutex_);
  std::uint64_t peak() const EXCLUDES(mutex_);
  /// Returns the bytes that are neither in use nor promised: the room that is left for one element.
  std::uint64_t room() const EXCLUDES(mutex_);

  /// Promises `bytes`. Returns false if there is no room now. A promise to elements for which the
  /// run's caller does not wait (`ahead`) leaves half of what slots leave, for the others.
  bool reserve(std::uint64_t bytes, bool ahead = false) EXCLUDES(mutex_);
  void unreserve(std::uint64_t bytes) EXCLUDES(mutex_);

  /// Sets the bytes of the slots that a run needs at least: one for each batch stage. Call this
  /// once, before all other functions.
  void set_least_slots(std::uint64_t bytes) EXCLUDES(mutex_);
  /// Returns the limit without these slots, regardless of what is in use now.
  std::uint64_t beside_slots() const EXCLUDES(mutex_);

  /// Charges the bytes of a slot. Returns false if there is no room. `first` means that the stage
  /// has no other slot.
  bool charge_slot(std::uint64_t bytes, bool first) EXCLUDES(mutex_);
  void discharge_slot(std::uint64_t bytes, bool first) EXCLUDES(mutex_);

  /// Charges bytes that a codec allocates itself. Leaves room for the first slot of each stage,
  /// where it is not made yet. Returns false if there is no room.
  bool charge(std::uint64_t bytes) EXCLUDES(mutex_);
  /// The same, taken from `promised` as far as possible.
  bool charge(std::uint64_t bytes, std::uint64_t& promised) EXCLUDES(mutex_);
  void discharge(std::uint64_t bytes) EXCLUDES(mutex_);
  /// Like `charge`, until the result is dropped. It has no data, and is null if there is no room.
  BufferPtr charged(std::uint64_t bytes) EXCLUDES(mutex_);
  /// From now on, no request gets a larger buffer than it needs.
  void be_exact() EXCLUDES(mutex_);
  /// True if a request has found no room.
  bool scarce() const EXCLUDES(mutex_);

  /// Returns a buffer of at least `bytes`, taken from `promised` as far as possible. Returns null
  /// if there is no room now. As long as no request has found the budget full, it may be an idle
  /// buffer of up to twice the size, unless `exact` is true: the number of buffers that a stage
  /// fills depends on their sizes.
  BufferPtr allocate(std::size_t bytes, std::uint64_t& promised, bool exact = false)
      EXCLUDES(mutex_);

  /// Returns the error for a request of this size that finds no room.
  Error no_room_for(std::size_t bytes) const;

  /// Returns the bytes that `allocate` takes for a request of this size.
  static std::size_t rounded(std::size_t bytes) noexcept {
    if (bytes > PTRDIFF_MAX) return bytes;  // will be refused
    return charge_of(bytes <= kLeast ? kLeast : class_bytes(size_class(bytes)));
  }

  /// A guard: this thread tries again to get memory, and no other thread does meanwhile. If it
  /// fails, it releases what it got. That is no reason for others to try again.
  class Attempt {
   public:
    explicit Attempt(Memory& memory);
    ~Attempt();
    Attempt(const Attempt&) = delete;
    Attempt& operator=(const Attempt&) = delete;
    /// Returns what `releases` was before.
    std::uint64_t seen() const noexcept { return seen_; }
    /// States that what was released is room for others.
    void succeeded() noexcept { succeeded_ = true; }

   private:
    friend class Memory;
    static thread_local Attempt* current;
    Memory& memory_;
    MutexLock lock_;
    const std::uint64_t seen_;
    Attempt* const outer_;  // of another run
    bool succeeded_ = false;
    bool released_ = false;
  };
  /// Count releases, and wait until the count differs from `seen`, but not for ever.
  std::uint64_t releases() const noexcept { return releases_.load(std::memory_order_acquire); }
  const std::atomic<std::uint64_t>& release_events() const noexcept { return releases_; }
  void wait_for_release(std::uint64_t seen) EXCLUDES(mutex_);
  /// Wakes all waiting threads.
  void wake() EXCLUDES(mutex_);

  /// Frees the idle buffers whose room was given to others. Threads call this before they use new
  /// room, and without a lock, as memory that devices can read takes long to free.
  void free_outgoing() noexcept EXCLUDES(mutex_);

 private:
  static constexpr std::size_t kLeast = 128;  // has a size class of its own
  static constexpr int kClassesToADoubling = 8;

  class Charge;
  class PoolBuffer;
  /// Returns what a buffer of this size is charged. Besides small ones, their object and the heap's
  /// own data count.
  static constexpr std::size_t charge_of(std::size_t size) noexcept {
    constexpr std::size_t kSmall = 1024;
    return size < kSmall ? std::min(size + 128, kSmall) : size;
  }
  static int size_class(std::size_t bytes) noexcept;
  static std::size_t class_bytes(int size_class) noexcept;
  PoolBuffer* take_idle(int wanted, bool exact) noexcept REQUIRES(mutex_);
  void give(PoolBuffer* buffer) noexcept EXCLUDES(mutex_);
  void trim(std::uint64_t wanted) REQUIRES(mutex_);
  void put_outgoing(PoolBuffer* buffer) noexcept REQUIRES(mutex_);
  bool take_room(std::uint64_t bytes, std::uint64_t beside) REQUIRES(mutex_);
  void note_release() noexcept REQUIRES(mutex_);

  const std::uint64_t limit_;
  Allocator& allocator_;
  HeldBytesOfRun held_;
  SlowMutex attempts_;  // held while a thread tries again; before mutex_
  mutable Mutex mutex_;
  CondVar released_;
  std::uint64_t live_ GUARDED_BY(mutex_) = 0;
  std::uint64_t reserved_ GUARDED_BY(mutex_) = 0;
  std::uint64_t idle_ GUARDED_BY(mutex_) = 0;
  std::uint64_t peak_ GUARDED_BY(mutex_) = 0;
  std::uint64_t least_slots_ GUARDED_BY(mutex_) = 0;
  std::uint64_t first_slots_ GUARDED_BY(mutex_) = 0;               // bytes of first slots
  std::uint64_t more_slots_ GUARDED_BY(mutex_) = 0;                // bytes of all other slots
  std::atomic<std::uint64_t> releases_{0};                         // changed under the mutex
  bool scarce_ GUARDED_BY(mutex_) = false;                         // a request found no room
  std::vector<std::vector<PoolBuffer*>> free_ GUARDED_BY(mutex_);  // by size class
  PoolBuffer* outgoing_ GUARDED_BY(mutex_) = nullptr;              // the first that is to be freed
};

}  // namespace penstock
