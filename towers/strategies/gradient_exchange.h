// The exchange of gradients between towers, bucket by bucket while backward passes are running.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/towers/strategy.h>

namespace penstock::towers {

/// Variables whose gradients are adjacent in memory, and are exchanged together, with the zeros in
/// between.
struct Bucket {
  std::size_t first, last;  ///< variables [first, last)
  std::size_t begin, end;   ///< the values in a tower's gradients
};

/// Divides all variables into buckets, from the last to the first, in the order of backward passes.
/// Each bucket takes variables until one more would make it larger than `bytes`, and at least one.
std::vector<Bucket> buckets_of(const VariableStore& store, std::size_t bytes);

/// The weight of a part of a tower's gradients. 0: the tower has no gradient there, and the memory
/// holds old values.
struct Share {
  std::size_t begin, end;
  float weight;
};

/// An algorithm that adds up the gradients of one bucket. Thread-safe as each function says.
class BucketSum {
 public:
  virtual ~BucketSum() = default;
  /// Called by the tower's thread, once the tower's gradients in the bucket are final.
  virtual void reached(int /*tower*/, std::size_t /*bucket*/) {}
  /// Called by the exchange's thread, when all towers have reached the bucket. Replaces each
  /// tower's gradients there by the sums of all, multiplied by their shares, the same bits on each.
  virtual void add_up(const Bucket& bucket, std::size_t number,
                      const std::vector<std::vector<Share>>& shares) = 0;
  /// Called by the tower's thread: orders its further work after all sums so far.
  virtual void follow(int /*tower*/) {}
  /// Called by any thread: ends all waiting.
  virtual void fail() noexcept {}
};

/// A combination of towers' gradients. A variable's gradient is combined over the towers that have
/// one, weighted by rows for Combine::average; if none has, no tower gets one. One thread adds up
/// the buckets, always in the same order, each as soon as it is final on every tower. So towers
/// never wait for each other within a backward pass, and other joint operations of towers cannot
/// interfere.
class GradientExchange {
 public:
  /// `store` must be packed and outlive the exchange. Throws Error{invalid_argument} if only some
  /// of the towers are on GPUs.
  GradientExchange(VariableStore& store, const StrategyOptions& options);
  ~GradientExchange();
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  /// Call it when the tower's backward pass begins, over a batch of `rows`. Variables that the
  /// tower reports as final are exchanged during the pass. Throws the error given to `fail`.
  void begin(int tower, std::int64_t rows) EXCLUDES(mutex_);
  /// Call it when the pass has ended: all gradients are final. Returns when the tower's gradients
  /// are the combined ones; on a GPU they are for work enqueued on its stream from here on. Throws
  /// the error given to `fail`, or Error{no_progress} that names the towers that did not come in
  /// time.
  void finish(int tower, std::int64_t rows) EXCLUDES(mutex_);
  /// Ends every call with `error`; the first error counts.
  void fail(const Status& error) noexcept EXCLUDES(mutex_);
  /// Returns the exchange's part of the statistics. Any thread may call it.
  StrategyStats stats() const EXCLUDES(mutex_);

 private:
  using Clock = std::chrono::steady_clock;
  struct Tower {
    // For each bucket, the number of variables that are not final yet; used by the tower's thread.
    std::vector<std::size_t> left{};
    std::int64_t rows = 0;
    std::uint64_t steps = 0;
    bool begun = false;
  };

  void on_final(int tower, std::size_t bucket) EXCLUDES(mutex_);
  void reach(int tower, std::size_t bucket) EXCLUDES(mutex_);
  void add_up_all(const std::stop_token& stop) EXCLUDES(mutex_);
  bool reached_by_all() const REQUIRES(mutex_);
  std::vector<std::vector<Share>> shares_of(const Bucket& bucket);
  /// Returns for each variable of the bucket, and each tower of all processes, the tower's rows, or
  /// 0 if it has no gradient there.
  std::vector<std::vector<std::int64_t>> rows_of(const Bucket& bucket);
  /// Returns an error that names the towers that keep the others waiting; success if the sum itself
  /// is not finished, which handles its own errors.
  Status missing() const REQUIRES(mutex_);

  VariableStore& store_;
  const Combine combine_;
  Peers* const peers_;  // null: this process has all towers
  const double timeout_s_;
  const decltype(StrategyOptions::exchanged) exchanged_;
  const std::vector<Bucket> buckets_;
  std::vector<std::size_t> trainable_;  // of each bucket: its trainable variables
  // Each is used by its thread; `rows` are read once it has reached the bucket.
  std::vector<Tower> towers_;
  // For each variable, whether any tower has a gradient; used by the exchange's thread.
  std::vector<char> has_gradient_;

  mutable Mutex mutex_;
  StoppableCondVar reached_changed_;
  CondVar done_;
  std::vector<std::vector<char>> reached_ GUARDED_BY(mutex_);  // of each bucket: by each tower
  std::size_t next_ GUARDED_BY(mutex_) = 0;                    // the bucket to be added up
  // Steps of which all buckets were added up.
  std::uint64_t steps_ GUARDED_BY(mutex_) = 0;
  // Towers whose backward pass of this step has ended.
  std::size_t finishing_ GUARDED_BY(mutex_) = 0;
  // The time since which all of them have ended it.
  Clock::time_point all_finish_ GUARDED_BY(mutex_){};
  Clock::duration exchanging_ GUARDED_BY(mutex_){0};
  Clock::duration exposed_ GUARDED_BY(mutex_){0};
  Status error_ GUARDED_BY(mutex_);

  std::unique_ptr<BucketSum> sum_;  // null: one tower
  Thread thread_;
};

}  // namespace penstock::towers
