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

/// What a running op may use. One per thread and group; not synchronised.
class WorkContext : public ReadContext {
 public:
  /// The random numbers of this op for this element.
  Rng rng(const WorkItem& item) const noexcept { return {key_, item.ordinal, op_}; }
  /// True if the run was cancelled or destroyed, so that nobody wants the results. To be asked
  /// before each call of what is not ours or may take long…
  bool cancelled() const noexcept {
    return cancelled_ != nullptr && cancelled_->load(std::memory_order_relaxed);
  }
  /// …and then the status of an item instead of its result.
  static Status cancelled_status();

 protected:
  std::uint64_t key_ = 0;
  std::uint32_t op_ = 0;
  const std::atomic<bool>* cancelled_ = nullptr;  // none: never
};

/// What a map does, apart from who does it when. Immutable and thread-safe: `run` is called from
/// many threads.
class WorkOp {
 public:
  virtual ~WorkOp() = default;

  /// "decode_jpeg": the word used in explain, errors and fingerprints.
  virtual std::string name() const = 0;
  virtual void describe(Description& description) const = 0;
  /// The output's spec. Throws Error{invalid_argument} if the op can't take such elements.
  virtual Spec infer(const Spec& input) const = 0;

  /// Replaces each item's element by the result, or sets its status; must not throw for a bad
  /// element (what is thrown fails the whole group). Where `item.row` is set the op may write a
  /// component of fixed size straight to `row.data(i)` and return a tensor that views that memory:
  /// it is then not copied. Tensors left elsewhere than in the row are copied by the engine.
  virtual void run(std::span<WorkItem> items, WorkContext& context) const = 0;

  /// True if `run_columns` may be called instead of `run`: an op on elements of fixed size that
  /// takes them many at a time.
  virtual bool columnar() const { return false; }
  /// The same for elements that lie one behind another: every component of `in` and of `out` has
  /// the elements as its outermost dimension, and `out` is filled in place. Returns how many of
  /// them are done. Fewer than all: the next one failed or does not fit `out`, and is in `odd`; it
  /// is called again for those behind. What it throws makes the engine call `run` for the same
  /// elements, which tells the bad ones from the good.
  virtual std::size_t run_columns(const Element& in, Element& out, WorkItem& odd,
                                  const WorkContext& context) const;

  /// True if `run` may wait: it then runs on threads of its own, off the compute arena.
  virtual bool blocking() const { return false; }
  /// Elements the op likes to get at once; the engine bounds it and never waits to fill it.
  virtual std::size_t preferred_group() const { return 1; }
  /// False only if no element can fail: order stages such as take may then move in front of the op.
  virtual bool can_fail() const { return true; }
  /// True if the results depend on `context.rng`.
  virtual bool random() const { return false; }
  /// False if it is up to the user, whose code is called, that the results depend on nothing else.
  virtual bool deterministic() const { return true; }
};

using WorkOpPtr = std::shared_ptr<const WorkOp>;

}  // namespace penstock
