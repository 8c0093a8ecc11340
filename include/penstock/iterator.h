// One run of a dataset.
#pragma once

#include <chrono>
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
#include <penstock/workers.h>

namespace penstock {

/// The end of an epoch, as a value.
struct End {};

/// The result of `Iterator::next`: an element, the end of the epoch, or an error in its place in
/// the order. It converts to true for an element and for an error, so that the loop
///
///     while (ps::Next batch = run.next()) step(*batch);
///
/// leaves only at the end: `*` throws the error. To handle errors as values, call `is_error` first.
class Next {
 public:
  /// Makes an element.
  explicit Next(Element value) : outcome_(std::move(value)) {}
  /// Makes the end.
  explicit Next(End) : outcome_(End{}) {}
  /// Makes an error. REQUIRES: !error.ok().
  explicit Next(Status error) noexcept : outcome_(std::move(error)) {}

  /// Returns true for an element.
  bool has_value() const noexcept { return std::holds_alternative<Element>(outcome_); }
  /// Returns true at the end of the epoch.
  bool is_end() const noexcept { return std::holds_alternative<End>(outcome_); }
  /// Returns true for an error.
  bool is_error() const noexcept { return std::holds_alternative<Status>(outcome_); }
  /// Returns true for an element and for an error.
  explicit operator bool() const noexcept { return !is_end(); }

  /// Returns the element. Throws the error, or Error{out_of_range} at the end.
  Element& value();
  /// Returns or throws as `value` does.
  Element& operator*() { return value(); }
  /// Returns or throws as `value` does.
  Element* operator->() { return &value(); }
  /// Returns the error. REQUIRES: is_error().
  const Error& error() const { return std::get<Status>(outcome_).error(); }

 private:
  std::variant<Element, End, Status> outcome_;
};

/// The policy of a run for elements that fail.
enum class OnError {
  /// `next` returns the error in its place; the next call continues after it. Data that changes
  /// during the run (ErrorCode::changed) ends it under every policy.
  fail,
  /// As if a filter in front of all else had dropped the bad element: batches stay full. Too little
  /// memory (ErrorCode::resource_exhausted) is no fault of an element, and ends the run. Its error
  /// may name the memory that is known to be needed so far; later steps may need more. Unless
  /// `max_errors` or `max_error_share` is set, a run that skips more than half of at least ten
  /// elements gets an error at the end of the epoch, which ends it too.
  skip,
  retry,  ///< repeats reads that failed with ErrorCode::unavailable; otherwise as `fail`
};

/// The most threads that compute in one run.
inline constexpr int kMostThreads = 1023;
/// The most threads that wait for files in one run.
inline constexpr int kMostIoThreads = 4096;

/// The options of a run. The defaults suit most runs.
struct RunOptions {
  /// The seed of every random number: two runs with the same seed give the same bytes.
  std::uint64_t seed = 0;
  /// How many times the graph is run. The next epoch is prepared while the last one is delivered;
  /// batches never cross epochs.
  std::uint64_t epochs = 1;
  /// Compute threads, at most 1,023. 0: as many as the process may use.
  int threads = 0;
  /// Host bytes of slots and of everything in flight. 0: a quarter of the container's memory, at
  /// most 2 GiB.
  std::uint64_t memory_bytes = 0;
  /// Batches prepared ahead, never more than the budget allows. 0: as `prefetch` says, else 4 to
  /// 32, and more for smaller batches. Where threads wait for slow reads it is up to 64.
  int slots = 0;
  /// Threads that wait for files, at most 4,096. 0: the sources choose.
  int io_threads = 0;
  /// Milliseconds that destruction of the iterator waits for running reads and callables. Later
  /// ones, such as a read from a server that hangs, are detached together with all memory they may
  /// still touch. The log says so.
  std::uint64_t close_deadline_ms = 10'000;
  /// The policy for elements that fail.
  OnError on_error = OnError::fail;
  /// With `skip`: more bad elements than this end the run with an error.
  std::uint64_t max_errors = UINT64_MAX;
  /// With `skip`: a larger share of bad elements ends the run too, once 100 elements have been
  /// seen. In [0, 1]; 1 allows all to be bad.
  std::optional<double> max_error_share{};
  /// With `skip`: the file that bad elements are appended to, each once; empty: none. Each is a
  /// JSON line of shard, offset, length, index, stage and cause. If the file can't be written, the
  /// run logs this once and continues.
  std::string quarantine{};
  /// How many times a read that failed with ErrorCode::unavailable is repeated. -1: 4 with `retry`,
  /// else none.
  int retries = -1;
  /// Milliseconds before the first repetition. Each later one waits twice as long, at most 1 s.
  int retry_ms = 10;
  /// Where batches live, such as memory that a device copies from at full speed. Null: the heap.
  std::shared_ptr<Allocator> slot_allocator{};
  /// Other processes that make elements too.
  WorkerOptions workers{};
  /// States and cache files record what the data's files hold, and are refused for other data.
  /// `true`: nothing is hashed or compared but names and sizes.
  bool trust_data = false;
  /// True: `save` returns the same bytes at the same position, however far the run has read ahead.
  /// Elements are then handed to threads in groups of 64 at most. Not for a run that gives elements
  /// in any order.
  bool exact_state = false;
};

/// One run of a dataset, made by `Dataset::iterate`. Move-only. Several threads may call `next`,
/// and each element goes to one of them; any thread may call `cancel` and `stats`. Destruction
/// cancels the run and joins its threads (see `close_deadline_ms`); delivered elements stay valid.
///
/// An iterator that was moved from has no run: `next` gives Error{invalid_argument}, as `stats` and
/// `save` throw it.
///
/// A child of `fork` can't use an iterator: `next` gives Error{invalid_argument} there. So does
/// `Dataset::iterate` in a child of a process that has run a dataset.
class Iterator {
 public:
  class Impl;
  /// For the library: `Dataset::iterate` makes iterators.
  explicit Iterator(std::unique_ptr<Impl> impl);
  /// Takes the run of another iterator over.
  Iterator(Iterator&&) noexcept;
  /// Closes this run, and takes that of another iterator over.
  Iterator& operator=(Iterator&&) noexcept;
  /// Cancels the run and joins its threads.
  ~Iterator();

  /// Returns the next element of the current epoch, and waits for it. At the epoch's end it returns
  /// the end, again and again until `next_epoch`. After `cancel`, after one error too many, or once
  /// a file has changed, it returns an error that says so, once, and then the end.
  Next next();
  /// Waits like `next`, but for at most about `time`. Returns nothing if no element has come by
  /// then; the next call continues to wait. A caller that must look at something else meanwhile,
  /// such as signals, calls this again and again. The opening of an epoch is not interrupted.
  std::optional<Next> next_within(std::chrono::milliseconds time);

  /// The input iterator of a range-based loop; see `begin`.
  class Elements {
   public:
    using value_type = Element;              ///< for std::input_iterator
    using difference_type = std::ptrdiff_t;  ///< for std::input_iterator

    /// Waits for the first element.
    explicit Elements(Iterator& run) : run_(&run), next_(run.next()) {}
    /// Returns the element. Throws the error that stands in its place.
    Element& operator*() { return *next_; }
    /// Moves to the next element. Releases the current one first, because another thread that waits
    /// for a batch may need its slot.
    Elements& operator++() {
      next_ = Next(End{});
      next_ = run_->next();
      return *this;
    }
    /// Returns true at the end of the epoch.
    bool operator==(std::default_sentinel_t) const noexcept { return next_.is_end(); }

   private:
    Iterator* run_;
    Next next_;
  };
  /// Returns an iterator over the rest of the current epoch, for a loop that throws the first
  /// error. A new loop after that continues after the error.
  ///
  ///     for (ps::Element& batch : run) step(batch);
  Elements begin() { return Elements(*this); }
  /// Returns the end of such a loop.
  std::default_sentinel_t end() const noexcept { return {}; }

  /// Moves to the next epoch and drops the rest of the current one. Returns false if that was the
  /// last.
  bool next_epoch();
  /// Returns the number of the current epoch, counted from 0.
  std::uint64_t epoch() const noexcept;
  /// Wakes every waiting call. Idempotent.
  void cancel() noexcept;
  /// Returns what the run has done so far. Any thread may call it.
  Stats stats() const;
  /// Returns the position after the elements that `next` has returned so far, without prefetched
  /// ones. It takes a few hundred bytes, from which `Dataset::restore` continues with the same
  /// bytes. If an epoch could not begin or continue, the position is the one before that, so that a
  /// restored run tries again. Thread-safe, and waits for neither `next` nor a callable, so a
  /// callable may call it: an element in another thread's `next` does not count yet. Throws
  /// Error{invalid_argument} where a stage that replays its input follows an unordered map.
  std::string save() const;

 private:
  void close() noexcept;
  Impl& run_here() const;
  std::optional<Next> next_until(std::chrono::steady_clock::time_point deadline);

  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock
