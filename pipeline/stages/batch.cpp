#include "pipeline/stages/batch.h"

#include "pipeline/core/texts.h"
#include "pipeline/stages/group.h"

namespace penstock {
namespace {

/// Stacks values whose shapes are known only once they are made.
class StackOp final : public GatherOp {
 public:
  void gather(std::span<const Element* const> rows, WorkItem& out,
              WorkContext& context) const override {
    const Element& first = *rows.front();
    out.element.reset(first.names());
    out.element.valid_rows = static_cast<std::int64_t>(rows.size());
    for (std::size_t c = 0; c < first.size(); ++c) {
      for (std::size_t r = 1; r < rows.size(); ++r) {
        const Tensor& row = (*rows[r])[c];
        if (row.shape() == first[c].shape() && row.dtype() == first[c].dtype()) continue;
        out.index = r;
        out.status =
            Status(ErrorCode::mismatch,
                   "Cannot batch tensors with different shapes in component " + std::to_string(c) +
                       " (" + first.name(c) + "). First element had shape " +
                       first[c].shape().to_string() + " and element " + std::to_string(r) +
                       " had shape " + row.shape().to_string() + "; padded_batch pads them");
        return;
      }
      out.element[c] = stack(rows, c, context);
    }
  }

 private:
  static Tensor stack(std::span<const Element* const> rows, std::size_t c, WorkContext& context) {
    const Tensor& first = (*rows.front())[c];
    if (first.dtype() == DType::bytes && first.rank() == 0) return share_bytes(rows, c);
    const std::size_t stride = first.nbytes();
    const Shape shape = first.shape().prepend(static_cast<std::int64_t>(rows.size()));
    if (first.dtype() == DType::bytes) return stack_texts(rows, c, shape, context);
    BufferPtr buffer = context.allocate(stride * rows.size());
    for (std::size_t r = 0; r < rows.size(); ++r) {
      (*rows[r])[c].copy_to(buffer->data() + r * stride);
    }
    return Tensor(first.dtype(), shape, buffer->data(), buffer);
  }

  static Tensor stack_texts(std::span<const Element* const> rows, std::size_t c, const Shape& shape,
                            WorkContext& context) {
    std::vector<std::string_view> texts;
    for (const Element* row : rows) {
      for (std::int64_t i = 0; i < (*row)[c].volume(); ++i) {
        texts.push_back((*row)[c].bytes_at(i));
      }
    }
    return copy_texts(texts, context).reshape(shape);
  }
};

class BatchNode final : public Node {
 public:
  BatchNode(NodePtr source, std::int64_t size, BatchOptions options)
      : Node({source}, batched(source->spec(), options.drop_remainder ? size : Shape::kUnknown),
             batches_in(source->cardinality(), size, options.drop_remainder)),
        size_(size),
        options_(options) {}

  std::string name() const override { return "batch"; }
  void describe(Description& description) const override {
    description.add("size", size_);
    description.add("drop_remainder", options_.drop_remainder);
  }
  Execution execution() const override {
    return fits_slot(input().spec()) ? Execution::in_place : Execution::gathered;
  }
  std::optional<BatchInfo> batches() const override {
    return BatchInfo{.rows = size_,
                     .drop_remainder = options_.drop_remainder,
                     .in_place = fits_slot(input().spec()),
                     .element = input().spec()};
  }
  std::optional<BatchRows> find_batch_rows() const override {
    return rows_of(size_, options_.drop_remainder);
  }
  NodePtr batched_over(NodePtr elements) const override {
    return make_batch(std::move(elements), size_, {});
  }
  std::optional<std::int64_t> cardinality_of(std::span<const std::int64_t> inputs) const override {
    return batches_in(inputs[0], size_, options_.drop_remainder);
  }
  Pending find_pending() const override {
    return fits_slot(input().spec()) ? Pending::none : Pending::fallible;
  }
  std::string advice() const override {
    if (fits_slot(input().spec())) return {};
    return "elements " + input().spec().to_string() +
           " have no fixed size, so they are made first and copied once into their batch; give the "
           "map's output spec fixed shapes to have them written in place";
  }

  std::unique_ptr<Program> first_program(RunServices& run) const override {
    return std::make_unique<Program>(make_stack_op(), run.counters(*this), run.stage_name(*this));
  }
  OrderIteratorPtr open(const OpenContext& context) const override {
    if (fits_slot(input().spec()) && !context.nested) {
      return context.run.batches(*this, input().open(context), context, options_.drop_remainder);
    }
    OrderIteratorPtr grouped = std::make_unique<GroupIterator>(
        *this, context, static_cast<std::size_t>(size_), options_.drop_remainder);
    if (pending() != Pending::none) return grouped;
    return context.run.values(*this, std::move(grouped), context);
  }

 private:
  std::int64_t size_;
  BatchOptions options_;
};

}  // namespace

std::shared_ptr<const GatherOp> make_stack_op() {
  static const auto op = std::make_shared<const StackOp>();
  return op;
}

std::int64_t batches_in(std::int64_t elements, std::int64_t size, bool drop_remainder) {
  if (elements < 0) return elements;
  return elements / size + (!drop_remainder && elements % size > 0 ? 1 : 0);
}

bool fits_slot(const Spec& spec) noexcept {
  for (const ComponentSpec& component : spec) {
    if (component.dtype == DType::bytes ? component.shape != Shape()
                                        : !component.shape.is_static()) {
      return false;
    }
  }
  return spec.size() > 0;
}

Spec batched(const Spec& spec, std::int64_t rows) {
  std::vector<ComponentSpec> components(spec.begin(), spec.end());
  for (ComponentSpec& component : components) {
    if (component.shape.has_rank()) component.shape = component.shape.prepend(rows);
  }
  return Spec(std::move(components));
}

NodePtr make_batch(NodePtr input, std::int64_t size, BatchOptions options) {
  if (size <= 0) bad_stage("batch", "size must be positive, not " + std::to_string(size));
  return std::make_shared<BatchNode>(std::move(input), size, options);
}

}  // namespace penstock
