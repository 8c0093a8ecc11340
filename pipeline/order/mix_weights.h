// The record behind MixWeights.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <penstock/stage_options.h>

namespace penstock {

/// Thread-safe.
class MixWeights::Record {
 public:
  /// Throws Error{invalid_argument} for what is no record.
  explicit Record(std::vector<Change> changes);

  /// The weights of a draw, which is made now: they never change again.
  std::shared_ptr<const std::vector<double>> at(std::uint64_t epoch, std::uint64_t draw);
  Change set(std::vector<double> weights);
  std::vector<Change> changes() const;
  std::size_t inputs() const noexcept { return inputs_; }

 private:
  using Place = std::pair<std::uint64_t, std::uint64_t>;  // epoch, draw
  struct Entry {
    Place from;
    std::shared_ptr<const std::vector<double>> weights;
  };

  std::size_t inputs_ = 0;  // constant after construction
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;  // in order; guarded by mutex_
  Place next_;                  // behind the last draw that was made; guarded by mutex_
};

}  // namespace penstock
