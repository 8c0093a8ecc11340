// The record of changes behind MixWeights.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <penstock/internal/thread_annotations.h>
#include <penstock/stage_options.h>
#include <penstock/state.h>

namespace penstock {

/// The weights over time: each change with the draw from which it applies. Thread-safe.
class MixWeights::Record {
 public:
  /// Throws Error{invalid_argument} if `changes` are not a valid record.
  explicit Record(std::vector<Change> changes);

  /// Returns the weights of a draw that is made now. From then on, these weights are final.
  std::shared_ptr<const std::vector<double>> at(std::uint64_t epoch, std::uint64_t draw);
  /// Says that the draws of this epoch up to this one were made.
  void reached(std::uint64_t epoch, std::uint64_t draw);
  Change set(std::vector<double> weights);
  std::vector<Change> changes() const;
  std::size_t inputs() const noexcept { return inputs_; }
  /// Saves the weights that apply from this epoch on to `changes`, and the position up to which
  /// they were used to `draws`. If `exact`, that is left to those who restore their draws.
  void save(std::uint64_t epoch, bool exact, StateWriter& changes, StateWriter& draws) const;
  /// Takes over a saved record. Changes of this record that are later than the saved ones are kept.
  /// Throws Error{data_loss} unless the state holds a valid record for as many inputs.
  void restore(StateReader& changes, StateReader& draws);

 private:
  using Place = std::pair<std::uint64_t, std::uint64_t>;  // epoch, draw
  struct Entry {
    Place from;
    std::shared_ptr<const std::vector<double>> weights;
  };

  std::size_t inputs_ = 0;  // constant after construction
  mutable Mutex mutex_;
  std::vector<Entry> entries_ GUARDED_BY(mutex_);  // in order
  // The place after the last draw that was made.
  Place next_ GUARDED_BY(mutex_);
};

}  // namespace penstock
