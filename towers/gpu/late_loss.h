// Losses of a tower on a GPU, read one step late so that the host never waits for the step at hand.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "towers/gpu/gpu.h"
#include "towers/model.h"

namespace penstock::towers {

/// Used by the tower's thread.
class LateLoss {
 public:
  struct Told {
    std::uint64_t step = 0;
    Loss loss{};
  };

  /// `gpus`: what the tower computes with, one or several.
  explicit LateLoss(std::vector<Gpu*> gpus);
  ~LateLoss();
  LateLoss(const LateLoss&) = delete;
  LateLoss& operator=(const LateLoss&) = delete;

  /// What layers add up from here on is another step's.
  void begin() {
    for (Gpu* gpu : gpus_) gpu->clear(gpu->result());
  }
  /// Has the results copied once the forward pass of `rows` is through, and returns those of the
  /// step before, if they were not yet told. Throws Error{invalid_argument} if that had a label or
  /// an id that there is not.
  std::optional<Told> end(std::uint64_t step, std::int64_t rows);
  /// Those of the last step, if they were not told.
  std::optional<Told> last();

 private:
  const std::vector<Gpu*> gpus_;
  const std::shared_ptr<Allocator> pinned_;
  std::vector<Event> copied_;  // of each
  double* const values_;       // pinned; four of each, of the step in waiting_
  std::optional<Told> waiting_;
};

}  // namespace penstock::towers
