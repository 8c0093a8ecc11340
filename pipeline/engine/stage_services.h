// What a run does for its stages.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <penstock/stats.h>

#include "pipeline/core/thread_annotations.h"
#include "pipeline/engine/fingerprint.h"
#include "pipeline/engine/group_sizer.h"
#include "pipeline/engine/read_pace.h"
#include "pipeline/order/node.h"
#include "pipeline/order/support.h"

namespace penstock {

class Run;

/// The engine's side of a run, for the stages of its plan: what they are called and counted by, and
/// segments for those that want values or batches. Thread-safe.
class StageServices final : public RunServices {
 public:
  explicit StageServices(Run& run);

  OrderIteratorPtr values(const Node& owner, OrderIteratorPtr input, const OpenContext& context,
                          bool ordered) override;
  OrderIteratorPtr batches(const Node& node, OrderIteratorPtr input, const OpenContext& context,
                           bool drop_remainder) override;
  bool skips() const noexcept override;
  ElementRef made(const ElementRef& item, const OpenContext& context) override;
  std::uint64_t seed() const noexcept override;
  std::uint32_t rng_op(const Node& node) override;
  StageCounters* counters(const Node& node) override EXCLUDES(mutex_);
  std::string stage_name(const Node& node) override;
  const Program* intern(const Node& node, const Program* parent,
                        std::unique_ptr<Program> candidate) override EXCLUDES(mutex_);
  std::uint64_t fingerprint(const Node& node) const override { return Fingerprint(node).digest(); }
  std::shared_ptr<CacheStore> cache(const Node& node, const OpenContext& context) override
      EXCLUDES(mutex_);
  bool stopping() const noexcept override;
  void left_out(const Error& error) override;
  void give_up(const Error& error) override;
  std::uint64_t memory_limit() const noexcept override;
  ReadContext& stream_memory() override { return *stream_memory_; }

  /// What a stage's groups were like so far, in all epochs.
  struct Learnt {
    GroupSizes sizes;
    ReadPace reads;
  };
  Learnt& learnt(const Node& owner) EXCLUDES(mutex_);
  /// What stages have passed in the epochs before, and in the one with this key, if any; and back.
  void save_passed(StateWriter& state, std::optional<std::uint64_t> key) const;
  void restore_passed(StateReader& state);
  std::vector<StageStats> stats() const;

 private:
  Run& run_;
  const std::unique_ptr<ReadContext> stream_memory_;
  std::vector<std::unique_ptr<StageCounters>> counters_;  // of each stage of the plan
  Mutex mutex_;
  std::map<std::tuple<const Node*, const Program*, const GatherOp*>, std::unique_ptr<const Program>>
      programs_ GUARDED_BY(mutex_);
  std::map<const Node*, std::shared_ptr<CacheStore>> caches_ GUARDED_BY(mutex_);
  // Of datasets made while running, which come and go: one for each kind of stage.
  std::map<std::string, std::unique_ptr<StageCounters>> nested_counters_ GUARDED_BY(mutex_);
  std::map<const StageCounters*, Learnt> learnt_ GUARDED_BY(mutex_);
};

}  // namespace penstock
