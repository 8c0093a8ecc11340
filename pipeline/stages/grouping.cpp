#include "pipeline/stages/grouping.h"

#include "pipeline/stage/support.h"

namespace penstock {

GroupingIterator::GroupingIterator(const Node& node, const OpenContext& context,
                                   std::unique_ptr<Grouping> grouping, ProgramPtr program)
    : input_(open_keyed(node, context), node, context),
      grouping_(std::move(grouping)),
      program_(std::move(program)),
      stage_(context.run.stage_name(node)) {}

std::size_t GroupingIterator::pull(std::span<ElementRef> out) {
  while (done_.empty()) {
    if (ended_) return 0;
    ElementRef item;
    if (!input_.next(item)) {
      ended_ = true;
      grouping_->finish(done_);
      continue;
    }
    if (!is_error(item)) {
      const std::uint64_t number = input_.hold(item);
      Status status = grouping_->add(item, number, done_);
      if (status.ok()) continue;
      input_.let_go(number);
      item = error_at(item, std::move(status), stage_);
    }
    out[0] = std::move(item);
    return 1;
  }
  out[0] = emit();
  return 1;
}

ElementRef GroupingIterator::emit() {
  Gathered group = std::move(done_.front());
  done_.pop_front();
  grouping_->gave(group.key);
  ElementRef item{static_cast<std::uint64_t>(group.key), 0, program_, Payload::make()};
  item.payload->key = group.key;
  for (const ElementRef& child : group.items) item.ordinal = mix_path(item.ordinal, child.ordinal);
  for (const std::uint64_t number : group.numbers) input_.let_go(number);
  item.payload->children = std::move(group.items);
  return item;
}

void GroupingIterator::save(StateWriter& state) const {
  state.put(ended_ ? 1 : 0);
  grouping_->save(state);
  input_.save(state);
}

void GroupingIterator::restore(StateReader& state) {
  ended_ = state.get() != 0;
  grouping_->restore(state);
  input_.restore(state, [this](ElementRef item) {
    Status status = grouping_->add(item, input_.hold(item), done_);
    if (!status.ok()) throw status.error();
  });
  if (ended_) grouping_->finish(done_);
}

}  // namespace penstock
