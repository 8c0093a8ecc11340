// Measures how long a consumer waited, and records what the process had used when the run began.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include <penstock/internal/thread_annotations.h>
#include <penstock/process.h>
#include <penstock/stats.h>

namespace penstock {

/// A guard: this thread waits for results until it is destroyed.
class TimedRest {
 public:
  TimedRest() noexcept;
  ~TimedRest();
  TimedRest(const TimedRest&) = delete;
  TimedRest& operator=(const TimedRest&) = delete;
  /// Returns how long this thread has waited so far.
  static std::int64_t total_ns() noexcept;

 private:
  const std::int64_t begin_ns_;
};

/// The times of a run's consumer. Waits are measured each time. The other time within `next` is
/// measured each time if elements are slow. If reading a clock would cost more than 1 %, it is
/// measured only once in up to 64 times. Any thread may call `fill`. One thread at a time may call
/// the other functions.
class ConsumerTimes {
 public:
  ConsumerTimes() noexcept;

  /// A guard: the consumer is in `next` until it is destroyed.
  class Waiting {
   public:
    explicit Waiting(ConsumerTimes& times) noexcept
        : times_(times), rested_ns_(TimedRest::total_ns()), begin_ns_(times.begin()) {}
    ~Waiting() { times_.waited(TimedRest::total_ns() - rested_ns_, begin_ns_); }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    ConsumerTimes& times_;
    const std::int64_t rested_ns_;
    const std::int64_t begin_ns_;  // 0: this call is not measured
  };

  /// Notes that an element was delivered.
  void got_one() noexcept {
    if (first_ns_.load(std::memory_order_relaxed) == 0) note_first();
    if (end_ns_.load(std::memory_order_relaxed) != 0) end_ns_.store(0, std::memory_order_relaxed);
  }
  /// Notes that the epoch has ended. The time then stands still until the next epoch delivers an
  /// element.
  void ended() noexcept;
  /// Fills in `wall_s` and the members after it.
  void fill(Stats& stats) const EXCLUDES(mutex_);

 private:
  static std::int64_t now() noexcept;
  std::int64_t begin() noexcept { return --skipped_ > 0 ? 0 : now(); }
  void waited(std::int64_t rested_ns, std::int64_t begin_ns) noexcept {
    if (begin_ns != 0) rested_ns += look(begin_ns, rested_ns);
    if (rested_ns > 0) wait_ns_.fetch_add(rested_ns, std::memory_order_relaxed);
  }
  std::int64_t look(std::int64_t begin_ns, std::int64_t rested_ns) noexcept;
  void note_first() noexcept;
  void note_process() noexcept EXCLUDES(mutex_);

  const std::int64_t start_ns_;
  const double cpu_start_s_ = cpu_seconds();
  std::atomic<std::int64_t> wait_ns_{0};
  std::atomic<std::int64_t> first_ns_{0};  // since the start
  std::atomic<std::int64_t> end_ns_{0};    // end of the epoch since the start; 0: it has not ended
  // Used by the consumer's thread only.
  bool noted_ = false;
  int one_of_ = 1;   // one in this many calls is measured
  int skipped_ = 0;  // calls until the next measurement
  std::int64_t looked_ns_ = 0;
  mutable Mutex mutex_;
  std::optional<CpuTimes> before_ GUARDED_BY(mutex_);
};

}  // namespace penstock
