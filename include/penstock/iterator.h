// One run of a dataset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include <penstock/element.h>
#include <penstock/error.h>
#include <penstock/stats.h>

namespace penstock {

struct End {};

/// What `Iterator::next` returns: an element, the end, or an error in its place in the order. True
/// for an element and for an error, so that the loop
///
///     while (ps::Next batch = run.next()) step(*batch);
///
/// ends at the end only: `*` throws the error. Who wants errors as values asks `is_error` first.
class Next {
 public:
  explicit Next(Element value) : outcome_(std::move(value)) {}
  explicit Next(End) : outcome_(End{}) {}
  /// REQUIRES: !error.ok().
  explicit Next(Status error) noexcept : outcome_(std::move(error)) {}

  bool has_value() const noexcept { return std::holds_alternative<Element>(outcome_); }
  bool is_end() const noexcept { return std::holds_alternative<End>(outcome_); }
  bool is_error() const noexcept { return std::holds_alternative<Status>(outcome_); }
  explicit operator bool() const noexcept { return !is_end(); }

  /// Throws the error, or Error{out_of_range} at the end.
  Element& value();
  Element& operator*() { return value(); }
  Element* operator->() { return &value(); }
  /// REQUIRES: is_error().
  const Error& error() const { return std::get<Status>(outcome_).error(); }

 private:
  std::variant<Element, End, Status> outcome_;
};

enum class OnError {
  fail,   ///< `next` returns the error in its place; the run can go on behind it
  skip,   ///< as if the bad element had been filtered out: batches stay full
  retry,  ///< reads that failed with ErrorCode::unavailable are done again; else as `fail`
};

inline constexpr int kMostThreads = 1023;    ///< that compute in one run
inline constexpr int kMostIoThreads = 4096;  ///< that wait for files

struct RunOptions {
  /// Every random number derives from it; two runs with the same seed give the same bytes.
  std::uint64_t seed = 0;
  /// Times the graph is run. The next epoch is prepared while the last is delivered; batches never
  /// cross.
  std::uint64_t epochs = 1;
  /// Compute threads, at most 1,023; 0: as many as the process may use.
  int threads = 0;
  /// Host bytes of slots and of everything in flight; 0: a quarter of the container's memory, at
  /// most 2 GiB.
  std::uint64_t memory_bytes = 0;
  /// Batches prepared ahead; 0: as prefetch says, else 4 to 32, the more the smaller they are, and
  /// up to 64 where threads wait for slow reads; never more than the budget allows.
  int slots = 0;
  /// Threads that wait for files, at most 4,096; 0: chosen by the sources.
  int io_threads = 0;
  /// Destroying the iterator waits so long for what is at work. What has not come back then, such
  /// as a read from a server that hangs, is left behind with all that it may still touch, and the
  /// log says so.
  std::uint64_t close_deadline_ms = 10'000;
  OnError on_error = OnError::fail;
  /// With `skip`: more than this many bad elements end the run with an error…
  std::uint64_t max_errors = UINT64_MAX;
  /// …and so does a share above this once 100 elements have been seen.
  double max_error_share = 1.0;
  /// With `skip`: bad elements are appended to this file, each once, as JSON lines of shard,
  /// offset, length, index, stage and cause; empty: nowhere. A run whose quarantine can't be
  /// written says so through the log, once, and goes on.
  std::string quarantine{};
  /// Times that a read which failed with ErrorCode::unavailable is done again; -1: 4 with `retry`,
  /// else none.
  int retries = -1;
  /// Milliseconds before the first of them; each later one waits twice as long, at most 1 s.
  int retry_ms = 10;
  /// Where batches live, such as memory that a device copies from at full speed; null: the heap.
  std::shared_ptr<Allocator> slot_allocator{};
};

/// One run of a dataset, made by `Dataset::iterate`. Move-only. `next` may be called from several
/// threads, each element goes to one of them; `cancel` and `stats` from any. Destroying it cancels
/// the run and joins its threads (see `close_deadline_ms`); elements that were delivered stay
/// valid. A child of `fork` can't use it: `next` gives Error{invalid_argument} there, as does
/// `Dataset::iterate` in a child of a process that has run a dataset.
class Iterator {
 public:
  class Impl;
  explicit Iterator(std::unique_ptr<Impl> impl);
  Iterator(Iterator&&) noexcept;
  Iterator& operator=(Iterator&&) noexcept;
  ~Iterator();

  /// The next element of the current epoch; waits for it. At the epoch's end: end, again and again
  /// until `next_epoch`. After `cancel`, or one error too many: an error that says so, once, and
  /// then the end.
  Next next();

  /// What `next` gives, one after the other: see `begin`.
  class Elements {
   public:
    using value_type = Element;
    using difference_type = std::ptrdiff_t;

    explicit Elements(Iterator& run) : run_(&run), next_(run.next()) {}
    /// Throws the error that stands in its place.
    Element& operator*() { return *next_; }
    /// Lets go of the element first: whoever waits for a batch may need its slot.
    Elements& operator++() {
      next_ = Next(End{});
      next_ = run_->next();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const noexcept { return next_.is_end(); }

   private:
    Iterator* run_;
    Next next_;
  };
  /// For a loop over what is left of the current epoch, which throws the first error. A loop begun
  /// after that goes on behind it.
  ///
  ///     for (ps::Element& batch : run) step(batch);
  Elements begin() { return Elements(*this); }
  std::default_sentinel_t end() const noexcept { return {}; }

  /// Moves on to the next epoch; what is left of the current one is dropped. False if that was the
  /// last.
  bool next_epoch();
  /// Counted from 0.
  std::uint64_t epoch() const noexcept;
  /// Wakes every waiting call. Idempotent.
  void cancel() noexcept;
  Stats stats() const;
  /// What has been returned by `next` so far, whatever is prefetched: a few hundred bytes from
  /// which `Dataset::restore` goes on with the same bytes. Of an epoch that could not be begun or
  /// go on it is the position before that, so that a restored run tries again. Thread-safe. Throws
  /// Error{invalid_argument} where a stage that replays its input stands behind an unordered map.
  std::string save() const;

 private:
  void close() noexcept;

  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock
