// The elements of datasets that a stage has closed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include <penstock/internal/thread_annotations.h>
#include <penstock/state.h>

#include "pipeline/stage/counters.h"

namespace penstock {

class RunServices;
struct OpenContext;

/// Counts the elements of a stage's inputs that are closed, such as earlier repetitions. It also
/// counts the errors that the stage left out itself. The stage opens its inputs with
/// `OpenContext::closed`, and saves this with its position. So a restored run counts them, too.
/// Thread-safe.
class ClosedCounts {
 public:
  /// `context` is that of the stage itself.
  explicit ClosedCounts(const OpenContext& context);
  /// The stage is closed itself.
  ~ClosedCounts();
  ClosedCounts(const ClosedCounts&) = delete;
  ClosedCounts& operator=(const ClosedCounts&) = delete;

  void add(const StageCounters& stage, Passed passed) noexcept EXCLUDES(mutex_);
  void save(StateWriter& state) const EXCLUDES(mutex_);
  void restore(StateReader& state) EXCLUDES(mutex_);

 private:
  RunServices& run_;
  const std::uint64_t epoch_;
  const bool counted_;
  const std::shared_ptr<ClosedCounts> outer_;
  mutable Mutex mutex_;
  std::map<const StageCounters*, Passed> stages_ GUARDED_BY(mutex_);
};

}  // namespace penstock
