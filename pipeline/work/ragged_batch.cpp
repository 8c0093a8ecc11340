#include "pipeline/work/ragged_batch.h"

#include "pipeline/core/texts.h"
#include "pipeline/order/support.h"
#include "pipeline/work/batch.h"
#include "pipeline/work/group.h"

namespace penstock {
namespace {

constexpr const char* kRaggedStage = "ragged_batch";

bool is_ragged(const ComponentSpec& component) {
  return component.shape.rank() > 0 && component.shape[0] == Shape::kUnknown;
}

Spec ragged(const Spec& input, std::int64_t rows) {
  std::vector<ComponentSpec> components;
  for (const ComponentSpec& component : input) {
    if (!component.shape.has_rank()) {
      bad_stage(kRaggedStage, "component " + component.name + " has unknown rank");
    }
    const bool varies = is_ragged(component);
    if (!(varies ? component.shape.drop_front() : component.shape).is_static()) {
      bad_stage(kRaggedStage, "component " + component.name + " of shape " +
                                  component.shape.to_string() +
                                  " may vary in its outermost dimension only");
    }
    components.push_back(component);
    if (!varies) {
      components.back().shape = component.shape.prepend(rows);
      continue;
    }
    const Shape splits{rows < 0 ? Shape::kUnknown : rows + 1};
    components.push_back({component.name + ".row_splits", DType::i64, splits});
  }
  return Spec(std::move(components));
}

class RaggedOp final : public GatherOp {
 public:
  explicit RaggedOp(Spec input)
      : input_(std::move(input)), names_(ragged(input_, Shape::kUnknown).names()) {}

  void gather(std::span<WorkItem> rows, WorkItem& out, WorkContext& context) const override {
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const std::string problem = input_.mismatch(rows[r].element);
      if (problem.empty()) continue;
      out.index = r;
      out.status = Status(ErrorCode::invalid_argument, problem);
      return;
    }
    out.element.reset(names_);
    out.element.valid_rows = static_cast<std::int64_t>(rows.size());
    const std::vector<std::size_t> offsets = layout(rows);
    const BufferPtr slot = context.allocate(offsets.back());
    std::size_t part = 0;
    for (std::size_t c = 0; c < input_.size(); ++c) {
      const auto place = [&] { return slot->data() + offsets[part]; };
      const Shape inner = is_ragged(input_[c]) ? input_[c].shape.drop_front() : input_[c].shape;
      const Shape shape = inner.prepend(total(rows, c));
      out.element[part] = input_[c].dtype == DType::bytes ? texts(rows, c, context).reshape(shape)
                                                          : values(rows, c, shape, place(), slot);
      ++part;
      if (!is_ragged(input_[c])) continue;
      out.element[part] = splits(rows, c, place(), slot);
      ++part;
    }
  }

 private:
  /// Extent of the component's outermost dimension in the batch.
  std::int64_t total(std::span<const WorkItem> rows, std::size_t c) const {
    if (!is_ragged(input_[c])) return static_cast<std::int64_t>(rows.size());
    std::int64_t sum = 0;
    for (const WorkItem& row : rows) sum += row.element[c].dim(0);
    return sum;
  }

  /// Where each tensor begins, and the end.
  std::vector<std::size_t> layout(std::span<const WorkItem> rows) const {
    std::vector<std::size_t> offsets;
    std::size_t end = 0;
    const auto add = [&](std::size_t bytes) {
      offsets.push_back(end);
      end += (bytes + Allocator::kAlignment - 1) / Allocator::kAlignment * Allocator::kAlignment;
    };
    for (std::size_t c = 0; c < input_.size(); ++c) {
      std::size_t bytes = 0;
      for (const WorkItem& row : rows) bytes += row.element[c].nbytes();
      add(input_[c].dtype == DType::bytes ? 0 : bytes);
      if (is_ragged(input_[c])) add((rows.size() + 1) * sizeof(std::int64_t));
    }
    offsets.push_back(end);
    return offsets;
  }

  static Tensor values(std::span<const WorkItem> rows, std::size_t c, const Shape& shape,
                       std::byte* place, const BufferPtr& slot) {
    std::byte* to = place;
    for (const WorkItem& row : rows) {
      row.element[c].copy_to(to);
      to += row.element[c].nbytes();
    }
    return Tensor(rows.front().element[c].dtype(), shape, place, slot);
  }

  static Tensor texts(std::span<const WorkItem> rows, std::size_t c, WorkContext& context) {
    if (rows.front().element[c].rank() == 0) return share_bytes(rows, c);
    std::vector<std::string_view> all;
    for (const WorkItem& row : rows) {
      const Tensor& strings = row.element[c];
      const Tensor dense = strings.contiguous() ? strings : strings.clone();
      for (std::int64_t i = 0; i < dense.volume(); ++i) all.push_back(dense.bytes_at(i));
    }
    return copy_texts(all, context);
  }

  static Tensor splits(std::span<const WorkItem> rows, std::size_t c, std::byte* place,
                       const BufferPtr& slot) {
    auto* to = reinterpret_cast<std::int64_t*>(place);
    std::int64_t sum = 0;
    *to++ = 0;
    for (const WorkItem& row : rows) *to++ = sum += row.element[c].dim(0);
    return Tensor(DType::i64, Shape{static_cast<std::int64_t>(rows.size()) + 1}, place, slot);
  }

  const Spec input_;
  const Names* names_;
};

class RaggedBatchNode final : public Node {
 public:
  RaggedBatchNode(const NodePtr& source, std::int64_t size, BatchOptions options)
      : Node({source}, ragged(source->spec(), options.drop_remainder ? size : Shape::kUnknown),
             batches_in(source->cardinality(), size, options.drop_remainder)),
        size_(size),
        options_(options),
        op_(std::make_shared<RaggedOp>(source->spec())) {}

  std::string name() const override { return kRaggedStage; }
  void describe(Description& description) const override {
    description.add("size", size_);
    description.add("drop_remainder", options_.drop_remainder);
  }
  Execution execution() const override { return Execution::held; }
  Pending pending() const override { return Pending::fallible; }
  OrderIteratorPtr open(const OpenContext& context) const override {
    return open_grouped(*this, context, static_cast<std::size_t>(size_), options_.drop_remainder,
                        op_);
  }

 private:
  std::int64_t size_;
  BatchOptions options_;
  std::shared_ptr<const RaggedOp> op_;
};

}  // namespace

NodePtr make_ragged_batch(NodePtr input, std::int64_t size, BatchOptions options) {
  if (size <= 0) bad_stage(kRaggedStage, "size must be positive, not " + std::to_string(size));
  return std::make_shared<RaggedBatchNode>(input, size, options);
}

}  // namespace penstock
