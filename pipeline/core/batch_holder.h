// Those who hold a run's batches and return them by themselves.
#pragma once

#include <memory>
#include <utility>

namespace penstock {

/// The owner of a run's batches, such as a feed. It returns their memory when its towers have used
/// them. Until then, a run that has no memory waits.
class BatchHolder {
 public:
  virtual ~BatchHolder() = default;
  /// True if memory of batches comes back without another call of `Iterator::next`. Any thread may
  /// call it, also with locks of the run held; it must not call the run.
  virtual bool returns_memory() const noexcept = 0;
};

/// A guard: until it is destroyed, the batches of runs that this thread creates go to this holder.
class RunsServe {
 public:
  explicit RunsServe(std::shared_ptr<const BatchHolder> holder) noexcept
      : outer_(std::exchange(holder_, std::move(holder))) {}
  ~RunsServe() { holder_ = std::move(outer_); }
  RunsServe(const RunsServe&) = delete;
  RunsServe& operator=(const RunsServe&) = delete;
  static std::shared_ptr<const BatchHolder> here() noexcept { return holder_; }

 private:
  static inline thread_local std::shared_ptr<const BatchHolder> holder_;
  std::shared_ptr<const BatchHolder> outer_;
};

}  // namespace penstock
