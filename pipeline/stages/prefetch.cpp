#include "pipeline/stages/prefetch.h"

namespace penstock {
namespace {

class PrefetchNode final : public Node {
 public:
  PrefetchNode(NodePtr source, std::int64_t count)
      : Node({source}, source->spec(), source->cardinality()), count_(count) {}
  std::string name() const override { return "prefetch"; }
  void describe(Description&) const override {}  // does not affect the output
  std::int64_t prefetch_depth() const override { return count_ > 0 ? count_ : -1; }
  std::optional<std::uint64_t> find_indexed_size() const override { return input().indexed_size(); }
  Relation relation() const override { return Relation::same; }
  std::optional<std::int64_t> cardinality_of(std::span<const std::int64_t> inputs) const override {
    return inputs[0];
  }
  OrderIteratorPtr open(const OpenContext& context) const override { return input().open(context); }

 private:
  std::int64_t count_;
};

}  // namespace

NodePtr make_prefetch(NodePtr input, std::int64_t count) {
  if (count < -1) bad_stage("prefetch", "count must be at least -1, not " + std::to_string(count));
  return std::make_shared<PrefetchNode>(std::move(input), count);
}

}  // namespace penstock
