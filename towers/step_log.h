// Towers' parts of a step, put together.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "towers/trainer.h"

namespace penstock::towers {

/// Collects what each tower's step came to and reports a step once every tower has told its part.
/// Thread-safe.
class StepLog {
 public:
  /// `parts`: towers that make a step together.
  StepLog(int parts, TrainObserver& observer, const Schedule& schedule)
      : parts_(parts), observer_(observer), schedule_(schedule) {}

  void begin(std::uint64_t first_step, std::uint64_t epoch);
  void add(std::uint64_t step, const Loss& loss);
  /// Of a tower whose steps are its own: the next one. REQUIRES: parts is 1.
  void add(const Loss& loss);

  const std::vector<float>& losses() const noexcept { return losses_; }
  std::uint64_t elements() const noexcept { return elements_; }

 private:
  void add_locked(std::uint64_t step, const Loss& loss);

  struct Sum {
    int parts = 0;
    Loss loss{};
  };

  const int parts_;
  TrainObserver& observer_;
  const Schedule schedule_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::deque<Sum> open_;  // steps from first_ on
  std::uint64_t first_ = 0;
  std::uint64_t epoch_ = 0;
  std::uint64_t elements_ = 0;
  std::vector<float> losses_;
};

}  // namespace penstock::towers
