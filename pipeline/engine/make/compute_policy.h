// How many threads compute.
#pragma once

#include <tbb/task_arena.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>

#include "pipeline/engine/make/pool_policy.h"
#include "pipeline/engine/run/tuning_log.h"

namespace penstock {

/// As many threads as the consumer needs. Another one is added, up to `most`, while the consumer
/// waits too. One is removed when, for a period, the consumer never had to wait and one thread less
/// could have done all the work. The period doubles each time that this proves wrong.
class ComputePolicy final : public PoolPolicy {
 public:
  /// If `by_quota` is true, never uses more threads than the container's quota allows, even if that
  /// changes during the run. `consumers_waiting` must outlive all work.
  ComputePolicy(int most, bool by_quota, const std::atomic<int>& consumers_waiting,
                std::shared_ptr<TuningLog> log);

  const char* what() const noexcept override { return "computing"; }
  const char* name() const noexcept override { return "penstock-work"; }
  void enter(const std::function<void()>& serve) noexcept override;
  bool run(const std::function<void()>& work) noexcept override;
  bool wants_another(std::size_t threads) noexcept override;
  void grown(std::size_t threads, const Late& late) noexcept override;
  std::size_t ended(const Done& done, std::size_t threads) noexcept override;

 private:
  void ask_quota() noexcept EXCLUDES(mutex);
  void begin_while(Clock::time_point now) REQUIRES(mutex);

  const int size_;
  const bool by_quota_;
  const std::atomic<int>& consumers_waiting_;
  const std::shared_ptr<TuningLog> log_;
  // The arena has a place for each thread of the run, and none for oneTBB's own. So if a callable
  // uses oneTBB, the run's threads do that work, and no other thread has to be started.
  tbb::task_arena arena_;
  const bool has_arena_;
  std::size_t most_ GUARDED_BY(mutex);
  Clock::time_point asked_ GUARDED_BY(mutex);
  Clock::time_point while_began_ GUARDED_BY(mutex);
  std::chrono::nanoseconds busy_ GUARDED_BY(mutex){0};  // of all threads, since while_began_
  std::chrono::milliseconds while_ GUARDED_BY(mutex){1000};
  bool shrunk_ GUARDED_BY(mutex) = false;  // whether the last change removed a thread
};

}  // namespace penstock
