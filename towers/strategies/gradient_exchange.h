// The exchange of gradients between towers, piece by piece while backward passes go on.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "towers/strategies/strategy.h"

namespace penstock::towers {

/// Variables whose gradients lie one behind the other, and are exchanged in one piece, with the
/// zeros in between.
struct Bucket {
  std::size_t first, last;  ///< variables [first, last)
  std::size_t begin, end;   ///< of a tower's gradients, the values
};

/// All variables, from the last to the first, as backward passes come by them: each bucket takes
/// variables until one more would make it larger than `bytes`, and at least one.
std::vector<Bucket> buckets_of(const VariableStore& store, std::size_t bytes);

/// What a part of a tower's gradients counts for; 0: the tower has none there, and what lies in
/// memory is left over.
struct Share {
  std::size_t begin, end;
  float weight;
};

/// How the gradients of one bucket are added up. Thread-safe as each call says.
class BucketSum {
 public:
  virtual ~BucketSum() = default;
  /// By the tower's thread, once its gradients in the bucket are final.
  virtual void reached(int /*tower*/, std::size_t /*bucket*/) {}
  /// By the exchange's thread, when all towers have reached the bucket: replaces each tower's
  /// gradients there by the sums of all, multiplied by their shares, the same bits on each.
  virtual void add_up(const Bucket& bucket, std::size_t number,
                      const std::vector<std::vector<Share>>& shares) = 0;
  /// By the tower's thread: what it does from here on comes behind all sums so far.
  virtual void follow(int /*tower*/) {}
  /// By any thread: ends all waiting.
  virtual void fail() noexcept {}
};

/// Combines towers' gradients: a variable over those towers that have a gradient of it, weighted by
/// rows for Combine::average; where none has, nobody gets one. One thread adds up bucket after
/// bucket, always in the same order, each as soon as it is final on every tower. So towers never
/// wait for each other within a backward pass, and what they do together there can't get in the
/// way.
class GradientExchange {
 public:
  /// `store` is packed and outlives the exchange. Throws Error{invalid_argument} for towers of
  /// which only some are on GPUs.
  GradientExchange(VariableStore& store, const StrategyOptions& options);
  ~GradientExchange();
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  /// The tower's backward pass begins, over a batch of `rows`; variables that it tells to be final
  /// are exchanged while it goes on. Throws what `fail` was given.
  void begin(int tower, std::int64_t rows);
  /// The pass has ended: all gradients are final. Returns when the tower's gradients are the
  /// combination, on a GPU for what is asked of its stream from here on. Throws what `fail` was
  /// given, or Error{no_progress} naming the towers that did not come in time.
  void finish(int tower, std::int64_t rows);
  /// Ends every call with `error`; the first one counts.
  void fail(const Status& error) noexcept;

 private:
  struct Tower {
    std::vector<std::size_t> left{};  // of each bucket: variables not yet final; the tower's own
    std::int64_t rows = 0;
    std::uint64_t steps = 0;
    bool begun = false;
  };

  void on_final(int tower, std::size_t bucket);
  void reach(int tower, std::size_t bucket);
  void add_up_all(const std::stop_token& stop);
  bool reached_by_all() const;
  std::vector<std::vector<Share>> shares_of(const Bucket& bucket);
  /// Names who keeps the others waiting; nothing if it is the sum, which looks after itself. With
  /// mutex_ held.
  Status missing() const;

  VariableStore& store_;
  const Combine combine_;
  const double timeout_s_;
  const std::vector<Bucket> buckets_;
  std::vector<std::size_t> trainable_;  // of each bucket: its variables that get gradients
  std::vector<Tower> towers_;           // each its thread's; `rows` are read once it has reached
  std::vector<char> has_gradient_;      // of each variable: on any tower; by the exchange's thread

  std::mutex mutex_;
  std::condition_variable_any reached_changed_, done_;
  // Guarded by mutex_.
  std::vector<std::vector<char>> reached_;  // of each bucket: by each tower
  std::size_t next_ = 0;                    // the bucket to be added up
  std::uint64_t steps_ = 0;                 // of which all buckets were
  Status error_;

  std::unique_ptr<BucketSum> sum_;  // null: one tower
  std::jthread thread_;
};

}  // namespace penstock::towers
