// How many threads read, and do other work that may wait.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "pipeline/engine/make/pool_policy.h"
#include "pipeline/engine/run/tuning_log.h"

namespace penstock {

/// Another thread whenever work has waited for one, up to a limit. Beyond a few threads there is
/// another one only while the existing ones really wait, and do not just lack a CPU. So a slow
/// device gets many requests at once, and a fast one gets no threads that it does not need.
class ReadPolicy final : public PoolPolicy {
 public:
  ReadPolicy(int most, std::shared_ptr<TuningLog> log)
      : log_(std::move(log)), most_(static_cast<std::size_t>(most)) {}

  const char* what() const noexcept override { return "reading"; }
  const char* name() const noexcept override { return "penstock-wait"; }
  void enter(const std::function<void()>& serve) noexcept override;
  bool run(const std::function<void()>& work) noexcept override;
  bool may_start(std::size_t threads) override EXCLUDES(mutex);
  void reserve(std::size_t threads) override;
  bool wants_another(std::size_t threads) noexcept override;
  void grown(std::size_t threads, const Late& late) noexcept override;
  void began(std::size_t thread, Clock::time_point now) noexcept override;
  std::size_t ended(const Done& done, std::size_t threads) noexcept override;

 private:
  struct Working {
    pid_t thread = 0;
    Clock::time_point since{};  // not set: it has no work
  };

  const std::shared_ptr<TuningLog> log_;
  std::size_t most_ GUARDED_BY(mutex);
  double waiting_ GUARDED_BY(mutex) = 0;            // the recent share of work that waited
  std::size_t noted_ GUARDED_BY(mutex) = 1;         // threads, when their number was last logged
  std::vector<Working> working_ GUARDED_BY(mutex);  // one entry for each thread
};

}  // namespace penstock
