#include "pipeline/stage/node.h"

#include <algorithm>
#include <string>

#include <penstock/limits.h>

namespace penstock {

Node::Node(std::vector<NodePtr> inputs, Spec spec, std::int64_t cardinality)
    : inputs_(std::move(inputs)), spec_(std::move(spec)), cardinality_(cardinality) {
  for (const NodePtr& input : inputs_) depth_ = std::max(depth_, input->depth_ + 1);
  if (depth_ > kMostStages)
    throw Error(ErrorCode::invalid_argument,
                "a chain has more than " + std::to_string(kMostStages) + " stages (stages)");
}

Execution Node::execution() const {
  if (inputs_.empty()) return indexed_size() ? Execution::references : Execution::stream;
  if (indexed_size()) return Execution::positions;
  const bool makes = pending() == Pending::none && inputs_[0]->pending() != Pending::none;
  return makes ? Execution::values : Execution::order;
}

bool Node::wants_values(std::size_t input) const {
  switch (execution()) {
    case Execution::verdicts:
      return true;
    case Execution::values:
    case Execution::held:
    case Execution::gathered:
      return inputs_[input]->pending() != Pending::none;
    default:
      return false;
  }
}

std::optional<BatchRows> Node::find_batch_rows() const {
  const bool kept = relation() == Relation::same || relation() == Relation::some;
  return kept ? inputs_[0]->batch_rows() : std::nullopt;
}

Resume Node::find_replay() const {
  if (resume() == Resume::work || pending() == Pending::none) return Resume::work;
  const auto works = [](const NodePtr& input) { return input->replay() == Resume::work; };
  return std::ranges::any_of(inputs_, works) ? Resume::work : Resume::order;
}

void bad_stage(std::string_view stage, std::string message) {
  throw Error(ErrorCode::invalid_argument, std::move(message),
              Provenance{.shard = {}, .offset = -1, .index = -1, .stage = std::string(stage)});
}

}  // namespace penstock
