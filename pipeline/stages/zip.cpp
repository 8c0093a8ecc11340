#include "pipeline/stages/zip.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "pipeline/stage/cardinality.h"
#include "pipeline/stage/support.h"

namespace penstock {
namespace {

/// Puts the components of all parts into one element.
class MergeOp final : public GatherOp {
 public:
  explicit MergeOp(const Names* names) : names_(names) {}
  void gather(std::span<const Element* const> parts, WorkItem& out, WorkContext&) const override {
    out.element.reset(names_);
    std::size_t position = 0;
    for (const Element* part : parts)
      for (std::size_t i = 0; i < part->size(); ++i) out.element[position++] = (*part)[i];
  }

 private:
  const Names* names_;
};

ElementRef tuple_of(std::span<ElementRef> parts, const ProgramPtr& program) {
  ElementRef item;
  item.ordinal = parts.front().ordinal;
  item.program = program;
  item.payload = Payload::make();
  for (ElementRef& part : parts) item.payload->children.push_back(std::move(part));
  return item;
}

class ZipIterator final : public OrderIterator {
 public:
  ZipIterator(std::vector<OrderIteratorPtr> inputs, ProgramPtr program)
      : inputs_(std::move(inputs)), program_(std::move(program)), parts_(inputs_.size()) {
    bool indexed = true;
    std::uint64_t size = UINT64_MAX;
    for (const OrderIteratorPtr& input : inputs_) {
      const auto input_size = input->size();
      indexed = indexed && input_size.has_value();
      size = std::min(size, input_size.value_or(0));
    }
    if (indexed) size_ = size;
  }

  std::size_t pull(std::span<ElementRef> out) override {
    if (size_) return pull_indexed(out);
    if (ended_) return 0;
    // One tuple at a time, so that a callback behind an input is never called for a tuple that
    // cannot be made.
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i]->pull({&parts_[i], 1}) == 0) ended_ = true;
    }
    if (ended_) return 0;
    out[0] = tuple_of(parts_, program_);
    return 1;
  }

  std::optional<std::uint64_t> size() const override { return size_; }
  void fetch(std::span<const std::uint64_t> positions, std::span<ElementRef> out) override {
    columns_.resize(inputs_.size());
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      columns_[i].resize(positions.size());
      inputs_[i]->fetch(positions, columns_[i]);
    }
    for (std::size_t k = 0; k < positions.size(); ++k) {
      for (std::size_t i = 0; i < inputs_.size(); ++i) parts_[i] = std::move(columns_[i][k]);
      out[k] = tuple_of(parts_, program_);
    }
  }

  void save(StateWriter& state) const override {
    state.put(position_);
    state.put(ended_ ? 1 : 0);
    if (!size_) {
      for (const OrderIteratorPtr& input : inputs_) input->save(state);
    }
  }
  void restore(StateReader& state) override {
    position_ = state.get();
    ended_ = state.get() != 0;
    if (!size_) {
      for (const OrderIteratorPtr& input : inputs_) input->restore(state);
    }
  }

 private:
  std::size_t pull_indexed(std::span<ElementRef> out) {
    std::array<std::uint64_t, kBlock> positions;
    const std::size_t count = std::min<std::uint64_t>({out.size(), kBlock, *size_ - position_});
    for (std::size_t i = 0; i < count; ++i) positions[i] = position_ + i;
    if (count > 0) fetch({positions.data(), count}, out.first(count));
    position_ += count;
    return count;
  }

  std::vector<OrderIteratorPtr> inputs_;
  ProgramPtr program_;
  std::vector<ElementRef> parts_;
  std::vector<std::vector<ElementRef>> columns_;
  std::optional<std::uint64_t> size_;
  std::uint64_t position_ = 0;
  bool ended_ = false;
};

Spec merged(const std::vector<NodePtr>& inputs, std::string_view stage) {
  std::vector<ComponentSpec> components;
  for (const NodePtr& input : inputs) {
    for (const ComponentSpec& component : input->spec()) {
      for (const ComponentSpec& other : components) {
        if (other.name == component.name) {
          bad_stage(stage, "component " + component.name +
                               " comes from two inputs; rename it in one of them");
        }
      }
      components.push_back(component);
    }
  }
  return Spec(std::move(components));
}

std::int64_t shortest(std::span<const std::int64_t> inputs) {
  return std::accumulate(inputs.begin(), inputs.end(), kInfinite, min_cardinality);
}

std::vector<std::int64_t> cardinalities(const std::vector<NodePtr>& inputs) {
  std::vector<std::int64_t> result;
  for (const NodePtr& input : inputs) result.push_back(input->cardinality());
  return result;
}

class ZipNode final : public Node {
 public:
  ZipNode(std::vector<NodePtr> inputs, std::string name)
      : Node(inputs, merged(inputs, name), shortest(cardinalities(inputs))),
        name_(std::move(name)) {
    std::vector<std::string> names;
    for (const ComponentSpec& component : spec()) names.push_back(component.name);
    merge_ = std::make_shared<MergeOp>(Names::intern(names));
  }

  std::string name() const override { return name_; }
  void describe(Description&) const override {}
  Pending find_pending() const override {
    for (const NodePtr& input : inputs()) {
      if (input->pending() == Pending::fallible) return Pending::fallible;
    }
    return Pending::infallible;
  }
  std::optional<std::int64_t> cardinality_of(std::span<const std::int64_t> inputs) const override {
    return shortest(inputs);
  }
  std::optional<std::uint64_t> find_indexed_size() const override {
    for (const NodePtr& input : inputs()) {
      if (!input->indexed_size()) return std::nullopt;
    }
    return static_cast<std::uint64_t>(cardinality());
  }

  std::unique_ptr<Program> first_program(RunServices& run) const override {
    return std::make_unique<Program>(merge_, run.counters(*this), run.stage_name(*this));
  }
  OrderIteratorPtr open(const OpenContext& context) const override {
    std::vector<OrderIteratorPtr> opened;
    for (std::size_t i = 0; i < inputs().size(); ++i) {
      opened.push_back(input(i).open(context.branch(i)));
    }
    return std::make_unique<ZipIterator>(std::move(opened), own_first_program(context, *this));
  }

 private:
  std::string name_;
  std::shared_ptr<const MergeOp> merge_;
};

/// An op that counts without end.
class CountOp final : public GatherOp {
 public:
  CountOp(const Names* names, std::int64_t start) : names_(names), start_(start) {}
  void gather(std::span<const Element* const>, WorkItem& out, WorkContext&) const override {
    const auto start = static_cast<std::uint64_t>(start_);
    if (out.index > static_cast<std::uint64_t>(INT64_MAX) - start) out.status = beyond_;
    out.element.reset(names_);
    out.element[0] = Tensor::scalar<std::int64_t>(static_cast<std::int64_t>(start + out.index));
  }

 private:
  const Names* names_;
  std::int64_t start_;
  const Status beyond_{ErrorCode::out_of_range, "the number is beyond 2^63 - 1"};
};

class CountIterator final : public IndexedIterator {
 public:
  explicit CountIterator(ProgramPtr program) : program_(std::move(program)) {}
  std::optional<std::uint64_t> size() const override { return UINT64_MAX; }
  void fetch(std::span<const std::uint64_t> positions, std::span<ElementRef> out) override {
    for (std::size_t i = 0; i < positions.size(); ++i) {
      out[i] = ElementRef{positions[i], 0, program_, {}};
    }
  }

 private:
  ProgramPtr program_;
};

class NumbersNode final : public Node {
 public:
  NumbersNode(std::int64_t start, std::string component)
      : Node({}, Spec({{component, DType::i64, Shape()}}), kInfinite), start_(start) {
    const std::array<std::string, 1> names{component};
    op_ = std::make_shared<CountOp>(Names::intern(names), start);
  }
  std::string name() const override { return "count"; }
  void describe(Description& description) const override { description.add("start", start_); }
  Pending find_pending() const override { return Pending::infallible; }
  std::optional<std::uint64_t> find_indexed_size() const override { return UINT64_MAX; }
  std::unique_ptr<Program> first_program(RunServices& run) const override {
    return std::make_unique<Program>(op_, run.counters(*this), run.stage_name(*this));
  }
  OrderIteratorPtr open(const OpenContext& context) const override {
    return std::make_unique<CountIterator>(own_first_program(context, *this));
  }

 private:
  std::int64_t start_;
  std::shared_ptr<const CountOp> op_;
};

}  // namespace

NodePtr make_zip(std::vector<NodePtr> inputs) {
  if (inputs.empty()) bad_stage("zip", "no inputs were given");
  return std::make_shared<ZipNode>(std::move(inputs), "zip");
}

NodePtr make_enumerate(NodePtr input, std::int64_t start, std::string component) {
  NodePtr count = std::make_shared<NumbersNode>(start, std::move(component));
  return std::make_shared<ZipNode>(std::vector<NodePtr>{std::move(input), std::move(count)},
                                   "enumerate");
}

}  // namespace penstock
