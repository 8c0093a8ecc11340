// The contract of a work op: what map stages do to elements.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <penstock/description.h>
#include <penstock/element.h>
#include <penstock/error.h>
#include <penstock/rng.h>
#include <penstock/source.h>
#include <penstock/spec.h>

namespace penstock {

/// The services for a running op. One per thread and group; not synchronised.
class WorkContext : public ReadContext {
 public:
  /// Returns the random numbers of this op for this element.
  Rng rng(const WorkItem& item) const noexcept { return {key_, item.ordinal, op_}; }
  /// Returns true if the run was cancelled or destroyed, so that its results are not needed. Ask
  /// before each call of foreign code or of code that may take long.
  bool cancelled() const noexcept {
    return cancelled_ != nullptr && cancelled_->load(std::memory_order_relaxed);
  }
  /// Returns the status to give an item instead of its result, once the run was cancelled.
  static Status cancelled_status();

 protected:
  std::uint64_t key_ = 0;                         ///< of the seed and the epoch
  std::uint32_t op_ = 0;                          ///< tells ops apart
  const std::atomic<bool>* cancelled_ = nullptr;  ///< null: never
};

/// The work of a map, apart from its scheduling. Immutable and thread-safe: many threads call
/// `run`.
class WorkOp {
 public:
  virtual ~WorkOp() = default;

  /// Returns the word used in explain, errors and fingerprints: "decode_jpeg".
  virtual std::string name() const = 0;
  /// Adds the options of the op to `description`.
  virtual void describe(Description& description) const = 0;
  /// Returns the output's spec. Throws Error{invalid_argument} if the op can't take such elements.
  virtual Spec infer(const Spec& input) const = 0;

  /// Replaces each item's element by the result, or sets its status. Must not throw for a bad
  /// element, because an exception fails the whole group. If `item.row` is set, the op may write a
  /// component of fixed size straight to `row.data(i)` and return a tensor that views that memory.
  /// The engine then does not copy it. The engine copies tensors that lie elsewhere than in the
  /// row.
  virtual void run(std::span<WorkItem> items, WorkContext& context) const = 0;

  /// Returns true if `run_columns` may be called instead of `run`: an op on elements of fixed size
  /// that takes them many at a time.
  virtual bool columnar() const { return false; }
  /// Runs on elements that lie one after another. Every component of `in` and of `out` has the
  /// elements as its outermost dimension, and `out` is filled in place. Returns how many of them
  /// are done. If these are fewer than all, the next element failed or does not fit `out`, and is
  /// in `odd`; the function is called again for the elements after it. If it throws, the engine
  /// calls `run` for the same elements, to tell the bad ones from the good.
  virtual std::size_t run_columns(const Element& in, Element& out, WorkItem& odd,
                                  const WorkContext& context) const;

  /// Returns true if `run` may wait. It then runs on threads of its own, off the compute arena.
  virtual bool blocking() const { return false; }
  /// Returns the number of elements that the op prefers to get at once. The engine bounds it and
  /// never waits to fill it.
  virtual std::size_t preferred_group() const { return 1; }
  /// Returns false only if no element can fail: order stages such as take may then move before the
  /// op.
  virtual bool can_fail() const { return true; }
  /// Returns true if the results depend on `context.rng`.
  virtual bool random() const { return false; }
  /// Returns false if the op calls user code, which alone decides whether the results depend on
  /// nothing else.
  virtual bool deterministic() const { return true; }
};

/// A shared op.
using WorkOpPtr = std::shared_ptr<const WorkOp>;

}  // namespace penstock
