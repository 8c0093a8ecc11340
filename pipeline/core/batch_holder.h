// Those who hold a run's batches and return them by themselves.
#pragma once

namespace penstock {

/// The owner of a run's batches, such as a feed. It returns their memory when its towers have used
/// them. Until then, a run that has no memory waits.
class BatchHolder {
 public:
  virtual ~BatchHolder() = default;
  /// True if memory of batches comes back without another call of `Iterator::next`. Any thread may
  /// call it, also with locks of the run held; it must not call the run.
  virtual bool returns_memory() const noexcept = 0;
  /// False if no batch can come back before the next one arrives. Called in the same way.
  virtual bool may_return() const noexcept { return true; }
};

}  // namespace penstock
