#include <algorithm>
#include <cstring>
#include <sstream>

#include "pipeline/core/sizes.h"
#include "pipeline/core/texts.h"
#include "pipeline/stages/batch.h"
#include "pipeline/stages/group.h"
#include "pipeline/stages/padding.h"

namespace penstock {
namespace {

/// Copies a contiguous tensor to the front corner of a larger one.
void copy_corner(const Shape& from, const Shape& to, std::size_t value_bytes, int axis,
                 const std::byte* in, std::byte* out) {
  if (axis == from.rank()) {
    std::memcpy(out, in, value_bytes);
    return;
  }
  std::size_t in_stride = value_bytes;
  std::size_t out_stride = value_bytes;
  for (int i = axis + 1; i < from.rank(); ++i) {
    in_stride *= static_cast<std::size_t>(from[i]);
    out_stride *= static_cast<std::size_t>(to[i]);
  }
  if (axis == from.rank() - 1) {
    if (from[axis] > 0) std::memcpy(out, in, in_stride * static_cast<std::size_t>(from[axis]));
    return;
  }
  for (std::int64_t i = 0; i < from[axis]; ++i) {
    copy_corner(from, to, value_bytes, axis + 1, in + i * static_cast<std::int64_t>(in_stride),
                out + i * static_cast<std::int64_t>(out_stride));
  }
}

class PadOp final : public GatherOp {
 public:
  PadOp(std::vector<Shape> shapes, std::vector<double> values)
      : shapes_(std::move(shapes)), values_(std::move(values)) {}

  void gather(std::span<const Element* const> rows, WorkItem& out,
              WorkContext& context) const override {
    const Element& first = *rows.front();
    out.element.reset(first.names());
    out.element.valid_rows = static_cast<std::int64_t>(rows.size());
    for (std::size_t c = 0; c < first.size() && out.status.ok(); ++c) {
      pad(rows, c, out, context);
    }
  }
  bool pads() const noexcept override { return true; }

 private:
  void pad(std::span<const Element* const> rows, std::size_t c, WorkItem& out,
           WorkContext& context) const {
    const DType dtype = (*rows.front())[c].dtype();
    Shape padded = shapes_[c];
    for (int axis = 0; axis < padded.rank(); ++axis) {
      std::int64_t longest = std::max<std::int64_t>(padded[axis], 0);
      for (std::size_t r = 0; r < rows.size(); ++r) {
        const Tensor& row = (*rows[r])[c];
        if (row.rank() != padded.rank() || row.dtype() != dtype) {
          return fail(out, rows, c, r,
                      "has shape " + row.shape().to_string() + ", which is not of rank " +
                          std::to_string(padded.rank()));
        }
        if (padded[axis] >= 0 && row.dim(axis) > padded[axis]) {
          return fail(out, rows, c, r,
                      "has shape " + row.shape().to_string() + ", longer than the padded shape " +
                          padded.to_string());
        }
        longest = std::max(longest, row.dim(axis));
      }
      padded = padded.with(axis, longest);
    }
    const std::size_t value_bytes = size_of(dtype);
    const std::int64_t volume = padded.volume();
    const std::size_t stride = value_bytes * static_cast<std::size_t>(volume);
    const Shape shape = padded.prepend(static_cast<std::int64_t>(rows.size()));
    BufferPtr buffer = context.allocate(bytes_of(dtype, shape));
    fill_values(dtype, values_[c], buffer->data(), volume * static_cast<std::int64_t>(rows.size()));
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const Tensor& row = (*rows[r])[c];
      const Tensor dense = row.contiguous() ? row : row.clone();
      copy_corner(dense.shape(), padded, value_bytes, 0, dense.data(), buffer->data() + r * stride);
    }
    Tensor result(dtype, shape, buffer->data(), buffer);
    if (dtype == DType::bytes) {  // the text must outlive the rows
      std::vector<std::string_view> texts;
      for (std::int64_t i = 0; i < result.volume(); ++i) texts.push_back(result.bytes_at(i));
      result = copy_texts(texts, context).reshape(shape);
    }
    out.element[c] = std::move(result);
  }

  static void fail(WorkItem& out, std::span<const Element* const> rows, std::size_t c,
                   std::size_t r, const std::string& problem) {
    out.index = r;
    out.status =
        Status(ErrorCode::data_loss, "element " + std::to_string(r) + " of the batch: component " +
                                         rows[r]->name(c) + " " + problem);
  }

  std::vector<Shape> shapes_;
  std::vector<double> values_;
};

Spec padded_spec(const Spec& spec, const std::vector<Shape>& shapes, std::int64_t rows) {
  std::vector<ComponentSpec> components(spec.begin(), spec.end());
  for (std::size_t i = 0; i < components.size(); ++i) components[i].shape = shapes[i].prepend(rows);
  return Spec(std::move(components));
}

class PaddedBatchNode final : public Node {
 public:
  PaddedBatchNode(NodePtr source, std::int64_t size, PaddedBatchOptions options)
      : Node({source},
             padded_spec(source->spec(), options.shapes,
                         options.drop_remainder ? size : Shape::kUnknown),
             batches_in(source->cardinality(), size, options.drop_remainder)),
        size_(size),
        options_(std::move(options)),
        op_(make_pad_op(options_.shapes, options_.values)) {}

  std::string name() const override { return "padded_batch"; }
  bool holds_values() const override { return true; }
  void describe(Description& description) const override {
    description.add("size", size_);
    for (const Shape& shape : options_.shapes) description.add("shape", shape.to_string());
    for (const double value : options_.values) description.add("value", value);
    description.add("drop_remainder", options_.drop_remainder);
  }
  Execution execution() const override { return Execution::gathered; }
  std::optional<BatchInfo> batches() const override {
    return BatchInfo{.rows = size_,
                     .drop_remainder = options_.drop_remainder,
                     .in_place = false,
                     .element = input().spec()};
  }
  std::optional<BatchRows> find_batch_rows() const override {
    return rows_of(size_, options_.drop_remainder);
  }
  NodePtr batched_over(NodePtr elements) const override {
    PaddedBatchOptions options = options_;
    options.drop_remainder = false;
    return make_padded_batch(std::move(elements), size_, std::move(options));
  }
  std::optional<std::int64_t> cardinality_of(std::span<const std::int64_t> inputs) const override {
    return batches_in(inputs[0], size_, options_.drop_remainder);
  }
  Pending find_pending() const override { return Pending::fallible; }
  std::unique_ptr<Program> first_program(RunServices& run) const override {
    return std::make_unique<Program>(op_, run.counters(*this), run.stage_name(*this));
  }
  OrderIteratorPtr open(const OpenContext& context) const override {
    return std::make_unique<GroupIterator>(*this, context, static_cast<std::size_t>(size_),
                                           options_.drop_remainder);
  }

 private:
  std::int64_t size_;
  PaddedBatchOptions options_;
  std::shared_ptr<const GatherOp> op_;
};

}  // namespace

std::shared_ptr<const GatherOp> make_pad_op(std::vector<Shape> shapes, std::vector<double> values) {
  return std::make_shared<PadOp>(std::move(shapes), std::move(values));
}

PaddedBatchOptions complete_padding(std::string_view stage, const Spec& spec,
                                    PaddedBatchOptions options) {
  if (options.shapes.empty()) {
    for (const ComponentSpec& component : spec) {
      if (!component.shape.has_rank()) {
        bad_stage(stage, "component " + component.name + " has unknown rank; give its shape");
      }
      options.shapes.push_back(component.shape);
    }
  }
  if (options.values.empty()) options.values.assign(spec.size(), 0.0);
  if (options.shapes.size() != spec.size() || options.values.size() != spec.size()) {
    bad_stage(stage, "shapes and values must be given for each of the " +
                         std::to_string(spec.size()) + " components of " + spec.to_string());
  }
  for (std::size_t i = 0; i < spec.size(); ++i) {
    const Shape& from = spec[i].shape;
    const Shape& to = options.shapes[i];
    bool fits = to.has_rank() && (!from.has_rank() || from.rank() == to.rank());
    for (int axis = 0; fits && from.has_rank() && axis < from.rank(); ++axis) {
      fits = to[axis] < 0 || from[axis] <= to[axis];
    }
    if (!fits) {
      bad_stage(stage, "component " + spec[i].name + " of shape " + from.to_string() +
                           " can't be padded to " + to.to_string());
    }
    if (!can_hold(spec[i].dtype, options.values[i])) {
      std::ostringstream value;
      value << options.values[i];
      bad_stage(stage, "component " + spec[i].name + " of " + std::string(name_of(spec[i].dtype)) +
                           " can't be padded with " + value.str());
    }
  }
  return options;
}

NodePtr make_padded_batch(NodePtr input, std::int64_t size, PaddedBatchOptions options) {
  constexpr const char* kStage = "padded_batch";
  if (size <= 0) bad_stage(kStage, "size must be positive, not " + std::to_string(size));
  options = complete_padding(kStage, input->spec(), std::move(options));
  return std::make_shared<PaddedBatchNode>(std::move(input), size, std::move(options));
}

}  // namespace penstock
