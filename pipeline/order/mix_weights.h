// The record behind MixWeights.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <penstock/stage_options.h>
#include <penstock/state.h>

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
  /// What holds from this epoch on; `draws` gets how far it has been used.
  void save(std::uint64_t epoch, StateWriter& changes, StateWriter& draws) const;
  /// Takes over what was saved; changes of this record that are later than those are kept. Throws
  /// Error{data_loss} for what is no record of as many inputs.
  void restore(StateReader& changes, StateReader& draws);

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
