#include "pipeline/stages/select.h"

#include <array>

namespace penstock {
namespace {

using Indices = std::shared_ptr<const std::vector<std::uint64_t>>;

class SelectIterator final : public IndexedIterator {
 public:
  SelectIterator(OrderIteratorPtr input, Indices indices)
      : input_(std::move(input)), indices_(std::move(indices)) {}
  std::optional<std::uint64_t> size() const override { return indices_->size(); }
  void fetch(std::span<const std::uint64_t> positions, std::span<ElementRef> out) override {
    std::array<std::uint64_t, kBlock> mapped;
    for (std::size_t done = 0; done < positions.size(); done += kBlock) {
      const std::size_t count = std::min(kBlock, positions.size() - done);
      for (std::size_t i = 0; i < count; ++i) mapped[i] = (*indices_)[positions[done + i]];
      input_->fetch({mapped.data(), count}, out.subspan(done, count));
    }
  }

 private:
  OrderIteratorPtr input_;
  Indices indices_;
};

class SelectNode final : public Node {
 public:
  SelectNode(NodePtr source, Indices indices)
      : Node({source}, source->spec(), static_cast<std::int64_t>(indices->size())),
        indices_(std::move(indices)) {}
  std::string name() const override { return "select"; }
  void describe(Description& description) const override {
    std::uint64_t hash = 0;
    for (const std::uint64_t index : *indices_) hash = mix_path(hash, index);
    description.add("count", static_cast<std::uint64_t>(indices_->size()));
    description.add("hash", hash);
  }
  std::optional<std::uint64_t> find_indexed_size() const override { return indices_->size(); }
  // Does not depend on the input's cardinality, as long as the input has these positions.
  std::optional<std::int64_t> cardinality_of(std::span<const std::int64_t>) const override {
    return cardinality();
  }
  OrderIteratorPtr open(const OpenContext& context) const override {
    return std::make_unique<SelectIterator>(input().open(context), indices_);
  }

 private:
  Indices indices_;
};

}  // namespace

NodePtr make_select(NodePtr input, std::vector<std::uint64_t> indices) {
  const auto size = input->indexed_size();
  if (!size) bad_stage("select", input->name() + " has no index to select from");
  for (const std::uint64_t index : indices) {
    if (index >= *size) {
      bad_stage("select", "index " + std::to_string(index) + " is past the end of " +
                              std::to_string(*size) + " elements");
    }
  }
  return std::make_shared<SelectNode>(
      std::move(input), std::make_shared<const std::vector<std::uint64_t>>(std::move(indices)));
}

}  // namespace penstock
