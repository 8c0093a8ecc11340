// An upper bound of what a run that makes one element at a time would hold.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <span>
#include <utility>
#include <vector>

#include <penstock/buffer.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/work.h>

#include "pipeline/stage/element_ref.h"

namespace penstock {

class HeldBytesOfRun;

/// Bytes of one purpose, and the most of them so far. Thread-safe.
class HeldBytes {
 public:
  /// The first `free` bytes do not count.
  HeldBytes(HeldBytesOfRun& run, std::uint64_t free) noexcept : run_(run), free_(free) {}
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;

  void add(std::uint64_t bytes) noexcept {
    raise(now_.fetch_add(bytes, std::memory_order_acq_rel) + bytes);
  }
  void take_off(std::uint64_t bytes) noexcept { now_.fetch_sub(bytes, std::memory_order_acq_rel); }
  /// States that so many bytes were held at once.
  void raise(std::uint64_t bytes) noexcept;

  /// A guard: what this thread allocates is held by the stages in front of one segment.
  class Here {
   public:
    explicit Here(HeldBytes& holder) noexcept : outer_(std::exchange(current, &holder)) {}
    ~Here() { current = outer_; }
    Here(const Here&) = delete;
    Here& operator=(const Here&) = delete;

   private:
    friend class HeldBytesOfRun;
    static thread_local HeldBytes* current;
    HeldBytes* const outer_;
  };

 private:
  friend class HeldBytesOfRun;
  HeldBytesOfRun& run_;
  const std::uint64_t free_;
  std::atomic<std::uint64_t> now_{0};
  std::atomic<std::uint64_t> most_{0};
};

/// Counts one buffer for its holder: the first that gets it. Thread-safe.
class HeldMark {
 public:
  /// The buffer takes `bytes`. `always`: the holder, whoever gets the buffer. `has_parts`: it keeps
  /// other buffers.
  explicit HeldMark(std::uint64_t bytes, HeldBytes* always = nullptr,
                    bool has_parts = false) noexcept
      : bytes_(bytes), always_(always), has_parts_(has_parts) {}
  bool has_parts() const noexcept { return has_parts_; }

  /// Notes where records of the buffer end, behind those before. Call it before other threads see
  /// the buffer.
  void add_records(std::span<const std::size_t> ends);
  /// The buffer is used again, and has no records.
  void drop_records() noexcept { ends_.clear(); }
  /// Returns where they end, in order; the first one begins at 0.
  std::span<const std::size_t> records() const noexcept { return ends_; }
  /// Notes what views of the buffer would take if each had memory of its own. Call it before
  /// `hold`.
  void add_views(std::uint64_t bytes) noexcept {
    views_.fetch_add(bytes, std::memory_order_relaxed);
  }
  void hold(HeldBytes& holder) noexcept {
    if (holder_.load(std::memory_order_acquire) == nullptr) hold_first(holder);
  }
  /// Counts nothing any more, or no view of so many bytes. Returns what was counted.
  std::uint64_t drop() noexcept;
  std::uint64_t drop_view(std::uint64_t bytes) noexcept;

 private:
  void hold_first(HeldBytes& holder) noexcept;

  const std::uint64_t bytes_;
  HeldBytes* const always_;
  const bool has_parts_;
  std::vector<std::size_t> ends_;  // of records
  std::atomic<HeldBytes*> holder_{nullptr};
  std::atomic<std::uint64_t> counted_{0};
  std::atomic<std::uint64_t> views_{0};
};

/// The bound of one run: the sum of the most bytes that each stage held, and that each segment took
/// for elements that it made together (docs/budget.md). Thread-safe.
class HeldBytesOfRun {
 public:
  HeldBytesOfRun() : elsewhere_(make()) {}

  /// Returns a new part of the sum, which lives as long as this.
  HeldBytes& make(std::uint64_t free = 0) EXCLUDES(mutex_);
  /// Returns the holder of what the calling thread allocates; null if it works for no stage.
  HeldBytes* here() noexcept {
    HeldBytes* const current = HeldBytes::Here::current;
    return current != nullptr && &current->run_ == this ? current : nullptr;
  }
  /// The same for memory of stages, on any thread.
  HeldBytes& here_or_elsewhere() noexcept {
    HeldBytes* const current = here();
    return current != nullptr ? *current : elsewhere_;
  }
  /// True if the sum may have grown since the last call of `exceeds`.
  bool grew() const noexcept { return grew_.load(std::memory_order_acquire); }
  /// True if the sum exceeds `most`.
  bool exceeds(std::uint64_t most) noexcept EXCLUDES(mutex_);
  /// Forgets what was held earlier.
  void restart() noexcept EXCLUDES(mutex_);

 private:
  friend class HeldBytes;
  std::atomic<bool> grew_{false};
  Mutex mutex_;
  std::list<HeldBytes> parts_ GUARDED_BY(mutex_);
  HeldBytes& elsewhere_;
};

/// Sums up what views of shared buffers would take if each element had memory of its own: its
/// records, where they are known, else what it views.
class SharedViews {
 public:
  /// Begins with another element.
  void next() noexcept { counted_ = false; }
  /// Adds a view of `buffer`, and returns its bytes.
  std::uint64_t add(Buffer& buffer, const std::byte* data, std::size_t bytes) noexcept {
    const auto byte = static_cast<std::size_t>(data - buffer.data());
    if (&buffer == last_ && byte >= begin_ && byte < end_)
      return std::exchange(counted_, true) ? 0 : rounded(end_ - begin_);
    if (&buffer != last_ || byte < end_ || near_ + 1 >= records_.size() ||
        byte >= records_[near_ + 1])
      return add_far(buffer, byte, bytes);
    begin_ = std::exchange(end_, records_[++near_]);  // most views are of the next record
    counted_ = true;
    return rounded(end_ - begin_);
  }

 private:
  std::uint64_t add_far(Buffer& buffer, std::size_t byte, std::size_t bytes) noexcept;
  bool find(std::size_t byte) noexcept;
  // Many records have one size.
  std::uint64_t rounded(std::size_t size) noexcept {
    return size == size_ ? rounded_ : round(size);
  }
  std::uint64_t round(std::size_t size) noexcept;

  const Buffer* last_ = nullptr;
  std::span<const std::size_t> records_;  // of that
  // The last record: its number, and its bytes. It has none if it is not known.
  std::size_t near_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool counted_ = false;         // for this element
  std::size_t size_ = SIZE_MAX;  // that was rounded last
  std::uint64_t rounded_ = 0;    // to this
};

/// Notes which memory the results of a group share.
void note_views(std::span<const WorkItem> work) noexcept;
/// Counts the memory of an item for the stages that get it.
void hold(const ElementRef& item, HeldBytes& holder) noexcept;
/// Counts the memory of items for no stage any more, as far as nothing else shares it. Returns the
/// bytes.
std::uint64_t take_from_holder(std::span<const ElementRef> items) noexcept;

}  // namespace penstock
