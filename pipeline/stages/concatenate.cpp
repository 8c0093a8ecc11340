#include "pipeline/stages/concatenate.h"

#include <algorithm>
#include <array>

#include "pipeline/stage/batch_rows.h"
#include "pipeline/stage/cardinality.h"

namespace penstock {
namespace {

class ConcatenateIterator final : public OrderIterator {
 public:
  ConcatenateIterator(OrderIteratorPtr first, OrderIteratorPtr second)
      : inputs_{std::move(first), std::move(second)} {}

  std::size_t pull(std::span<ElementRef> out) override {
    for (; current_ < 2; ++current_) {
      const std::size_t count = inputs_[current_]->pull(out);
      if (count > 0) return count;
    }
    return 0;
  }

  std::optional<std::uint64_t> size() const override {
    const auto a = inputs_[0]->size();
    const auto b = inputs_[1]->size();
    if (!a || !b) return std::nullopt;
    return *a + *b;
  }
  void fetch(std::span<const std::uint64_t> positions, std::span<ElementRef> out) override {
    const std::uint64_t border = *inputs_[0]->size();
    std::array<std::uint64_t, kBlock> mapped;
    for (std::size_t i = 0; i < positions.size();) {
      const bool second = positions[i] >= border;
      std::size_t run = 0;
      for (; run < kBlock && i + run < positions.size(); ++run) {
        if ((positions[i + run] >= border) != second) break;
        mapped[run] = positions[i + run] - (second ? border : 0);
      }
      inputs_[second ? 1 : 0]->fetch({mapped.data(), run}, out.subspan(i, run));
      i += run;
    }
  }

  void save(StateWriter& state) const override {
    state.put(current_);
    for (const OrderIteratorPtr& input : inputs_) input->save(state);
  }
  void restore(StateReader& state) override {
    current_ = state.get();
    for (const OrderIteratorPtr& input : inputs_) input->restore(state);
  }

 private:
  std::array<OrderIteratorPtr, 2> inputs_;
  std::uint64_t current_ = 0;
};

class ConcatenateNode final : public Node {
 public:
  ConcatenateNode(NodePtr first, NodePtr second)
      : Node({first, second}, Spec::relax(first->spec(), second->spec(), "concatenate"),
             add_cardinality(first->cardinality(), second->cardinality())) {}

  std::string name() const override { return "concatenate"; }
  std::optional<BatchRows> find_batch_rows() const override { return rows_of_any(inputs(), 2); }
  void describe(Description&) const override {}
  Pending find_pending() const override { return std::max(input(0).pending(), input(1).pending()); }
  std::optional<std::uint64_t> find_indexed_size() const override {
    if (!input(0).indexed_size() || !input(1).indexed_size()) return std::nullopt;
    return *input(0).indexed_size() + *input(1).indexed_size();
  }
  std::optional<std::int64_t> cardinality_of(std::span<const std::int64_t> inputs) const override {
    return add_cardinality(inputs[0], inputs[1]);
  }
  OrderIteratorPtr open(const OpenContext& context) const override {
    return std::make_unique<ConcatenateIterator>(input(0).open(context.branch(0)),
                                                 input(1).open(context.branch(1)));
  }
};

}  // namespace

NodePtr make_concatenate(NodePtr first, NodePtr second) {
  return std::make_shared<ConcatenateNode>(std::move(first), std::move(second));
}

}  // namespace penstock
