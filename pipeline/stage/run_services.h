// The contract of the services that the engine offers to stages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <penstock/rng.h>

#include "pipeline/stage/counters.h"
#include "pipeline/stage/node.h"

namespace penstock {

/// The elements that a cache holds for a run: all of them, or none yet.
struct CacheStore;

/// The services that the engine offers to stages. Thread-safe.
class RunServices {
 public:
  virtual ~RunServices() = default;

  /// Makes the items' values in parallel, in the same order (in place if the context is nested).
  /// Items that fail become errors in their place. Items that a predicate dropped are left out.
  virtual OrderIteratorPtr values(const Node& owner, OrderIteratorPtr input,
                                  const OpenContext& context, bool ordered = true) = 0;
  /// Makes batches as `node.batches()` describes, written in place into recycled slots.
  virtual OrderIteratorPtr batches(const Node& node, OrderIteratorPtr input,
                                   const OpenContext& context, bool drop_remainder) = 0;

  /// True if failed elements are skipped.
  virtual bool skips() const noexcept = 0;
  /// Makes the item's value on this thread. Returns it, or the error in its place.
  virtual ElementRef made(const ElementRef& item, const OpenContext& context) = 0;

  virtual std::uint64_t seed() const noexcept = 0;
  /// RunOptions::trust_data.
  virtual bool trust_data() const noexcept = 0;
  /// Returns the number that keys a random stage's draws. Stages that draw nothing have no number,
  /// so adding them does not change the draws of others.
  virtual std::uint32_t rng_op(const Node& node) = 0;
  virtual StageCounters* counters(const Node& node) = 0;
  /// Returns what names these counters in states.
  virtual std::string key_of(const StageCounters& stage) const = 0;
  /// Counts what a saved run had counted for the stage in this epoch. Returns its counters.
  virtual const StageCounters& count_again(const std::string& stage, Passed passed,
                                           std::uint64_t epoch) = 0;
  /// Returns the stage's name in reports and errors, such as "map[2] decode".
  virtual std::string stage_name(const Node& node) = 0;
  /// Returns the run's program of this node after `parent`: the one made before, or else
  /// `candidate`. It lives as long as the run.
  virtual const Program* intern(const Node& node, const Program* parent,
                                std::unique_ptr<Program> candidate) = 0;
  virtual std::shared_ptr<CacheStore> cache(const Node& node, const OpenContext& context) = 0;
  /// True if the calling thread has to stop: the run was cancelled, or the work that it pulls for
  /// is being taken down.
  virtual bool stopping() const noexcept = 0;
  /// Throws Error{cancelled} if the thread has to stop. Every `pull` passes this error on. Code
  /// that may run without end or wait within a pull calls this: returning an end or an error would
  /// be taken for part of the data.
  void check_stop() const;
  /// Counts an error that the stage with these counters left out.
  virtual void left_out(StageCounters& stage, const Error& error, const OpenContext& context) = 0;
  /// Reports that `error`, which the stage puts in its place, does not belong to a single element.
  /// It comes out under `skip` too, and ends the run there.
  virtual void give_up(const Error& error) = 0;
  /// Returns the size of the byte budget.
  virtual std::uint64_t memory_limit() const noexcept = 0;
  /// Returns the most bytes that one stage may keep. Elements are made in the rest of the budget.
  /// Without that, each of them would wait for room in vain.
  virtual std::uint64_t most_kept() const noexcept = 0;
  /// Returns the memory into which streams read their records. Allocating waits for room.
  virtual ReadContext& stream_memory() = 0;
  /// Charges the budget for memory that a stage has besides tensors, until the result, which has no
  /// data, is dropped. Waits for room. Throws Error{resource_exhausted}.
  virtual BufferPtr charge(std::uint64_t bytes) = 0;
};

/// Returns the generator of an order stage's random numbers.
inline Rng order_rng(const Node& node, const OpenContext& context, std::uint64_t seed,
                     std::uint64_t draw) {
  return {epoch_key(seed, context.epoch), mix_path(context.path, draw), context.run.rng_op(node)};
}

}  // namespace penstock
