// The services that a run offers to its stages.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <penstock/internal/thread_annotations.h>
#include <penstock/stats.h>

#include "pipeline/engine/errors/retry.h"
#include "pipeline/engine/errors/skip_ledger.h"
#include "pipeline/engine/memory/memory.h"
#include "pipeline/engine/memory/memory_line.h"
#include "pipeline/engine/run/activity.h"
#include "pipeline/engine/run/run_state.h"
#include "pipeline/engine/segment/segment_factory.h"
#include "pipeline/engine/segment/segment_owner.h"
#include "pipeline/stage/run_services.h"

namespace penstock {

/// The engine's side of a run for the stages of its plan. It gives them names, counters and
/// programs, and segments for stages that need values or batches. Thread-safe.
class StageServices final : public RunServices {
 public:
  /// The parts of the run that it uses.
  struct Services {
    const RunState& state;
    Memory& memory;
    const Activity& activity;
    MemoryLine& line;
    SkipLedger& ledger;
    Retry& retry;
    SegmentFactory& segments;
  };
  explicit StageServices(const Services& services);

  OrderIteratorPtr values(const Node& owner, OrderIteratorPtr input, const OpenContext& context,
                          bool ordered) override;
  OrderIteratorPtr batches(const Node& node, OrderIteratorPtr input, const OpenContext& context,
                           bool drop_remainder) override;
  bool skips() const noexcept override;
  ElementRef made(const ElementRef& item, const OpenContext& context) override;
  std::uint64_t seed() const noexcept override;
  bool trust_data() const noexcept override;
  std::uint32_t rng_op(const Node& node) override;
  StageCounters* counters(const Node& node) override EXCLUDES(mutex_);
  std::string key_of(const StageCounters& stage) const override EXCLUDES(mutex_);
  const StageCounters& count_again(const std::string& stage, Passed passed,
                                   std::uint64_t epoch) override EXCLUDES(mutex_);
  std::string stage_name(const Node& node) override;
  const Program* intern(const Node& node, const Program* parent,
                        std::unique_ptr<Program> candidate) override EXCLUDES(mutex_);
  std::shared_ptr<CacheStore> cache(const Node& node, const OpenContext& context) override
      EXCLUDES(mutex_);
  bool stopping() const noexcept override;
  void left_out(StageCounters& stage, const Error& error, const OpenContext& context) override;
  void give_up(const Error& error) override;
  std::uint64_t memory_limit() const noexcept override;
  std::uint64_t most_kept() const noexcept override;
  ReadContext& stream_memory() override { return *stream_memory_; }
  BufferPtr charge(std::uint64_t bytes) override;

  /// The way a program of the plan was made, from which a process with the same plan can make it
  /// again.
  struct Recipe {
    std::size_t stage = 0;  ///< number of the stage in the plan
    bool first = false;     ///< true: the stage's first program; false: its step, appended…
    const Program* parent = nullptr;  ///< …to this program; null: to a value
  };
  /// Returns nothing for a program that only this run can have.
  std::optional<Recipe> recipe_of(const Program& program) EXCLUDES(mutex_);
  /// Returns the program; null if the stage has no such program. REQUIRES: the plan has the stage.
  const Program* made_by(const Recipe& recipe) EXCLUDES(mutex_);

  /// Returns the stage as its segments know it.
  SegmentOwner owner(const Node& node) EXCLUDES(mutex_);
  /// Save the counts of all stages in earlier epochs and in the one with this key, if any, and
  /// restore them.
  void save_passed(StateWriter& state, std::optional<std::uint64_t> key) const;
  void restore_passed(StateReader& state);
  std::vector<StageStats> stats() const;

 private:
  const Services run_;
  const std::unique_ptr<ReadContext> stream_memory_;
  std::vector<std::unique_ptr<StageCounters>> counters_;  // one for each stage of the plan
  mutable Mutex mutex_;
  std::map<std::tuple<const Node*, const Program*, const GatherOp*>, std::unique_ptr<const Program>>
      programs_ GUARDED_BY(mutex_);
  std::map<const Program*, Recipe> recipes_ GUARDED_BY(mutex_);
  std::map<const Node*, std::shared_ptr<CacheStore>> caches_ GUARDED_BY(mutex_);
  // For datasets made during the run, which come and go: one for each kind of stage.
  std::map<std::string, std::unique_ptr<StageCounters>> nested_counters_ GUARDED_BY(mutex_);
  std::map<const StageCounters*, LearntOfStage> learnt_ GUARDED_BY(mutex_);
  std::map<const StageCounters*, HeldOfSegment> held_ GUARDED_BY(mutex_);
};

}  // namespace penstock
