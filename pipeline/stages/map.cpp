#include "pipeline/stages/map.h"

#include <penstock/packing_op.h>

#include "pipeline/stage/batch_rows.h"
#include "pipeline/stage/support.h"

namespace penstock {
namespace {

class MapNode final : public Node {
 public:
  MapNode(NodePtr source, WorkOpPtr op, bool ordered, Spec output)
      : Node({source}, std::move(output), source->cardinality()),
        op_(std::move(op)),
        ordered_(ordered) {}

  std::string name() const override { return "map"; }
  void describe(Description& description) const override {
    description.add("op", op_->name());
    op_->describe(description);
    if (!ordered_) description.add("ordered", false);
  }
  bool random() const override { return op_->random(); }
  bool deterministic() const override { return op_->deterministic(); }
  Relation relation() const override { return Relation::each; }
  std::optional<BatchRows> find_batch_rows() const override {
    return rows_through(input(), spec());
  }
  NodePtr over(NodePtr input) const override { return make_map(std::move(input), op_, ordered_); }
  NodePtr packing() const override {
    const auto* const op = dynamic_cast<const PackingOp*>(op_.get());
    return op != nullptr ? make_map(inputs()[0], op->packing(), ordered_) : nullptr;
  }
  Execution execution() const override {
    return ordered_ ? Execution::fused : Execution::unordered;
  }
  std::optional<std::int64_t> cardinality_of(std::span<const std::int64_t> inputs) const override {
    return inputs[0];
  }
  bool ordered() const override { return ordered_; }
  Pending find_pending() const override {
    if (!ordered_) return Pending::none;
    return op_->can_fail() || input().pending() == Pending::fallible ? Pending::fallible
                                                                     : Pending::infallible;
  }
  std::optional<std::uint64_t> find_indexed_size() const override {
    return ordered_ ? input().indexed_size() : std::nullopt;
  }

  std::optional<Program::Step> step(RunServices& run) const override {
    return Program::Step{op_,
                         op_->random() ? run.rng_op(*this) : 0,
                         run.counters(*this),
                         run.stage_name(*this),
                         fixed_payload_bytes(spec()),
                         spec()};
  }
  OrderIteratorPtr open(const OpenContext& context) const override {
    OrderIteratorPtr mapped = extend(input().open(context), context, *this);
    if (ordered_) return mapped;
    return context.run.values(*this, std::move(mapped), context, false);
  }

 private:
  WorkOpPtr op_;
  bool ordered_;
};

}  // namespace

NodePtr make_map(NodePtr input, WorkOpPtr op, bool ordered) {
  if (!op) bad_stage("map", "no op was given");
  Spec output;
  try {
    output = op->infer(input->spec());
  } catch (const Error& error) {
    bad_stage("map " + op->name(), error.cause() + "; the input is " + input->spec().to_string());
  }
  return std::make_shared<MapNode>(std::move(input), std::move(op), ordered, std::move(output));
}

}  // namespace penstock
