#include "pipeline/engine/segment/segment_factory.h"

#include <utility>

#include "pipeline/engine/make/local_runner.h"
#include "pipeline/engine/segment/batch_results.h"
#include "pipeline/engine/segment/inline_values.h"
#include "pipeline/engine/segment/ordered_values.h"

namespace penstock {

OrderIteratorPtr SegmentFactory::values(const SegmentOwner& owner, OrderIteratorPtr input,
                                        const OpenContext& context, bool ordered) {
  ErrorAccount account = account_of(owner, context);
  if (context.nested) {
    return std::make_unique<InlineValues>(
        InlineServices{making(), run_.step_back, run_.line, context.run}, std::move(input),
        std::move(account), epoch_key(run_.state.options().seed, context.epoch),
        owner.node.ends_at_no());
  }
  return segment(owner, std::move(input), context,
                 std::make_unique<OrderedValues>(std::move(account), ordered, run_.waker,
                                                 owner.node.ends_at_no()),
                 OrderedValues::kMostInGroup);
}

OrderIteratorPtr SegmentFactory::batches(const SegmentOwner& owner, std::size_t stage,
                                         OrderIteratorPtr input, const OpenContext& context,
                                         bool drop_remainder) {
  const std::shared_ptr<SlotPool> slots = run_.slots.pool(owner.node, context.place.path);
  BatchAssembler assembler(account_of(owner, context), drop_remainder,
                           mix_path(context.path, stage), run_.waker);
  const std::optional<BatchShare>& share = run_.state.share();
  if (share && !context.nested)
    assembler.make_only({*share, context.epoch, run_.state.plan().stages()[stage].batches->rows});
  const BatchResults::Services services{run_.state, run_.activity, run_.slots, run_.tuning};
  return segment(owner, std::move(input), context,
                 std::make_unique<BatchResults>(services, owner, slots, std::move(assembler)),
                 BatchResults::kMostInGroup);
}

ElementRef SegmentFactory::made(const ElementRef& item, const OpenContext& context) {
  WorkItem work;
  make_here({making(), run_.step_back, run_.line, context.run},
            epoch_key(run_.state.options().seed, context.epoch), {&item, 1}, {&work, 1});
  ElementRef value = value_of(item, work);
  hold(value, run_.memory.held().here_or_elsewhere());
  return value;
}

OrderIteratorPtr SegmentFactory::segment(const SegmentOwner& owner, OrderIteratorPtr input,
                                         const OpenContext& context,
                                         std::unique_ptr<Results> results,
                                         std::size_t group_limit) {
  return std::make_unique<ParallelSegment>(
      run_, owner, std::move(input), context, std::move(results), group_limit,
      [this](const SegmentWork& work, GroupListener& listener) { return runner(work, listener); });
}

std::unique_ptr<GroupRunner> SegmentFactory::runner(const SegmentWork& work,
                                                    GroupListener& listener) {
  const auto local = [this, &work](GroupListener& of_local) -> std::unique_ptr<GroupRunner> {
    return std::make_unique<LocalRunner>(LocalRunner::Services{making(), run_.executors}, work,
                                         of_local);
  };
  return run_.remote ? run_.remote->runner(work, local, listener) : local(listener);
}

GroupContext::Services SegmentFactory::making() const {
  return {run_.memory, run_.retry, run_.state.cancelled_flag(), run_.state.options().trust_data,
          run_.state.control()};
}

ErrorAccount SegmentFactory::account_of(const SegmentOwner& owner,
                                        const OpenContext& context) const {
  return {run_.ledger,
          {&owner.counters, epoch_key(run_.state.options().seed, context.epoch), context.counted},
          run_.state.skips(),
          context.closed};
}

}  // namespace penstock
