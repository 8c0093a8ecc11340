// The byte budget of a run, and the recycled buffers that live in it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include <penstock/buffer.h>

#include "pipeline/core/thread_annotations.h"

namespace penstock {

/// Every byte of a run's slots, records and intermediate tensors, and what codecs take beside their
/// tables and a few rows. Three accounts: `live` bytes are in use, `reserved` ones are promised to
/// work that was dispatched, `idle` ones lie in buffers that wait to be reused. Always live +
/// reserved <= limit and live + idle <= limit, so that a promise can be kept by freeing idle
/// buffers. Thread-safe. Buffers may outlive the run: they share it.
class Memory : public std::enable_shared_from_this<Memory> {
 public:
  /// A limit beyond what can be allocated at all is that.
  Memory(std::uint64_t limit, Allocator& allocator)
      : limit_(std::min<std::uint64_t>(limit, PTRDIFF_MAX)), allocator_(allocator) {}
  ~Memory();

  std::uint64_t limit() const noexcept { return limit_; }
  std::uint64_t used() const EXCLUDES(mutex_);
  std::uint64_t peak() const EXCLUDES(mutex_);
  /// Bytes that were never promised to anybody else: what is left for one element.
  std::uint64_t room() const EXCLUDES(mutex_);

  /// Promises `bytes`; false if there is no room now.
  bool reserve(std::uint64_t bytes) EXCLUDES(mutex_);
  void unreserve(std::uint64_t bytes) EXCLUDES(mutex_);

  /// The slots that a run can't do without: one of each batch stage. Said once, before all else.
  void set_least_slots(std::uint64_t bytes) EXCLUDES(mutex_);
  /// What lies beside them, whatever else is in use now.
  std::uint64_t beside_slots() const EXCLUDES(mutex_);

  /// Which slot of its stage is charged. `another` leaves the room that is kept for codecs.
  enum class Slots { first, another, another_if_must };
  /// Bytes of a slot; false if there is no room.
  bool charge_slot(std::uint64_t bytes, Slots which) EXCLUDES(mutex_);
  /// `first`: the stage has no other.
  void discharge_slot(std::uint64_t bytes, bool first) EXCLUDES(mutex_);

  /// Bytes that a codec allocates itself, beside all slots there are and the first of each stage;
  /// false if there is no room.
  bool charge(std::uint64_t bytes) EXCLUDES(mutex_);
  void discharge(std::uint64_t bytes) EXCLUDES(mutex_);
  /// Keeps room for codecs that take so much at once: slots but the first of each stage will be
  /// made beside it. False if as much was kept already, or no slot stands in the way.
  bool keep_for_codecs(std::uint64_t bytes) EXCLUDES(mutex_);
  /// True if there are more slots than leave that room.
  bool has_too_many_slots() const EXCLUDES(mutex_);

  /// A buffer of at least `bytes`, taken from `promised` as far as that goes; null if there is no
  /// room now. As long as there always was it may be an idle one of up to twice the size.
  BufferPtr allocate(std::size_t bytes, std::uint64_t& promised) EXCLUDES(mutex_);

  /// What `allocate` takes for a request of this size.
  static std::size_t rounded(std::size_t bytes) noexcept {
    if (bytes > PTRDIFF_MAX) return bytes;  // it is refused
    return bytes <= kLeast ? kLeast : class_bytes(size_class(bytes));
  }

  /// Counts releases; wait until it differs from `seen` or `milliseconds` have passed.
  std::uint64_t releases() const EXCLUDES(mutex_);
  void wait_for_release(std::uint64_t seen, int milliseconds) EXCLUDES(mutex_);
  /// Wakes all who wait.
  void wake() EXCLUDES(mutex_);

 private:
  static constexpr std::size_t kLeast = 1024;  // a class of its own
  static constexpr int kClassesToADoubling = 8;

  class PoolBuffer;
  static int size_class(std::size_t bytes) noexcept;
  static std::size_t class_bytes(int size_class) noexcept;
  PoolBuffer* take_idle(int wanted) noexcept REQUIRES(mutex_);
  void give(PoolBuffer* buffer) noexcept EXCLUDES(mutex_);
  void trim(std::uint64_t wanted) REQUIRES(mutex_);
  bool take_room(std::uint64_t bytes, std::uint64_t beside) REQUIRES(mutex_);

  const std::uint64_t limit_;
  Allocator& allocator_;
  mutable Mutex mutex_;
  CondVar released_;
  std::uint64_t live_ GUARDED_BY(mutex_) = 0;
  std::uint64_t reserved_ GUARDED_BY(mutex_) = 0;
  std::uint64_t idle_ GUARDED_BY(mutex_) = 0;
  std::uint64_t peak_ GUARDED_BY(mutex_) = 0;
  std::uint64_t least_slots_ GUARDED_BY(mutex_) = 0;
  std::uint64_t first_slots_ GUARDED_BY(mutex_) = 0;  // that were made
  std::uint64_t more_slots_ GUARDED_BY(mutex_) = 0;   // that were made beside the first
  std::uint64_t for_codecs_ GUARDED_BY(mutex_) = 0;
  std::uint64_t releases_ GUARDED_BY(mutex_) = 0;
  bool scarce_ GUARDED_BY(mutex_) = false;                         // a request found no room
  std::vector<std::vector<PoolBuffer*>> free_ GUARDED_BY(mutex_);  // by size class
};

/// The default budget: a quarter of the memory that this process may use (the container's limit,
/// else the machine's), at most 2 GiB.
std::uint64_t default_memory_bytes();

/// CPUs that this process may use: its affinity, bounded by the container's quota, at least 1.
int usable_cpus();
/// How many of `wanted` threads can be started beside those there are.
int startable_threads(int wanted);

}  // namespace penstock
