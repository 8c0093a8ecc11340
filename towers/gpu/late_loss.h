// Losses of a tower on a GPU. They are read one step late, so the host never waits for the current
// step.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <penstock/towers/model.h>

#include "towers/gpu/gpu.h"

namespace penstock::towers {

/// A reader of losses that is one step late. Used by the tower's thread.
class LateLoss {
 public:
  struct Told {
    std::uint64_t step = 0;
    Loss loss{};
  };

  /// `gpus` are the GPUs that the tower computes with.
  explicit LateLoss(std::vector<Gpu*> gpus);
  ~LateLoss();
  LateLoss(const LateLoss&) = delete;
  LateLoss& operator=(const LateLoss&) = delete;

  /// Begins a step: layers add its results from here on.
  void begin() {
    for (Gpu* gpu : gpus_) gpu->clear(gpu->result());
  }
  /// Requests a copy of the results after the forward pass of `rows`. Returns the loss of the step
  /// before, if it was not yet returned. Throws Error{mismatch} if that step had a label or an id
  /// out of range.
  std::optional<Told> end(std::uint64_t step, std::int64_t rows);
  /// Returns the loss of the last step, if it was not yet returned.
  std::optional<Told> last();

 private:
  const std::vector<Gpu*> gpus_;
  const std::shared_ptr<Allocator> pinned_;
  std::vector<Event> copied_;  // one for each GPU
  // Pinned: four values for each GPU, of the step in waiting_.
  double* const values_;
  std::optional<Told> waiting_;
};

}  // namespace penstock::towers
