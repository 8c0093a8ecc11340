#include "pipeline/stages/filter.h"

#include "pipeline/stage/support.h"

namespace penstock {
namespace {

class FilterIterator final : public OrderIterator {
 public:
  FilterIterator(OrderIteratorPtr input, bool stop_at_no)
      : input_(std::move(input)), stop_at_no_(stop_at_no) {}

  std::size_t pull(std::span<ElementRef> out) override {
    while (!ended_) {
      const std::size_t pulled = input_->pull(out);
      if (pulled == 0) break;
      const std::size_t kept = keep_items(out.first(pulled), [this](const ElementRef& item) {
        ended_ = ended_ || (stop_at_no_ && !item.payload->keep);
        return !ended_ && item.payload->keep;
      });
      if (kept > 0) return kept;
    }
    ended_ = true;
    return 0;
  }
  void save(StateWriter& state) const override {
    state.put(ended_ ? 1 : 0);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    ended_ = state.get() != 0;
    input_->restore(state);
  }

 private:
  OrderIteratorPtr input_;
  bool stop_at_no_;
  bool ended_ = false;
};

class FilterNode final : public Node {
 public:
  FilterNode(NodePtr source, WorkOpPtr predicate, bool stop_at_no)
      : Node({source}, source->spec(), source->cardinality() == 0 ? 0 : kUnknown),
        predicate_(std::move(predicate)),
        stop_at_no_(stop_at_no) {}

  std::string name() const override { return stop_at_no_ ? "take_while" : "filter"; }
  void describe(Description& description) const override {
    description.add("op", predicate_->name());
  }
  Relation relation() const override { return stop_at_no_ ? Relation::other : Relation::some; }
  std::optional<BatchRows> find_batch_rows() const override { return input().batch_rows(); }
  Execution execution() const override { return Execution::verdicts; }
  Pending find_pending() const override { return Pending::none; }
  bool ends_at_no() const override { return stop_at_no_; }
  bool deterministic() const override { return predicate_->deterministic(); }

  std::optional<Program::Step> step(RunServices& run) const override {
    return Program::Step{predicate_, 0, run.counters(*this), run.stage_name(*this),
                         fixed_payload_bytes(spec())};
  }
  OrderIteratorPtr open(const OpenContext& context) const override {
    OrderIteratorPtr judged = extend(input().open(context), context, *this);
    return std::make_unique<FilterIterator>(context.run.values(*this, std::move(judged), context),
                                            stop_at_no_);
  }

 private:
  WorkOpPtr predicate_;
  bool stop_at_no_;
};

}  // namespace

NodePtr make_filter(NodePtr input, WorkOpPtr predicate) {
  if (!predicate) bad_stage("filter", "no predicate was given");
  return std::make_shared<FilterNode>(std::move(input), std::move(predicate), false);
}

NodePtr make_take_while(NodePtr input, WorkOpPtr predicate) {
  if (!predicate) bad_stage("take_while", "no predicate was given");
  return std::make_shared<FilterNode>(std::move(input), std::move(predicate), true);
}

}  // namespace penstock
