#include "pipeline/stages/rebatch.h"

#include <algorithm>
#include <deque>

#include "pipeline/core/texts.h"
#include "pipeline/stage/support.h"
#include "pipeline/stages/batch.h"
#include "pipeline/stages/values.h"

namespace penstock {
namespace {

/// Joins the rows of several batches.
class JoinOp final : public GatherOp {
 public:
  void gather(std::span<const Element* const> parts, WorkItem& out,
              WorkContext& context) const override {
    if (parts.size() == 1) {
      out.element = *parts[0];
      return;
    }
    const Element& first = *parts.front();
    out.element.reset(first.names());
    out.element.valid_rows = 0;
    for (const Element* part : parts) out.element.valid_rows += part->valid_rows;
    for (std::size_t c = 0; c < first.size(); ++c) {
      for (std::size_t i = 1; i < parts.size(); ++i) {
        const Tensor& part = (*parts[i])[c];
        if (part.dtype() == first[c].dtype() &&
            part.shape().drop_front() == first[c].shape().drop_front()) {
          continue;
        }
        out.index = i;
        out.status =
            Status(ErrorCode::mismatch, "rows of different shapes in component " + first.name(c) +
                                            ": " + first[c].shape().drop_front().to_string() +
                                            " and " + part.shape().drop_front().to_string());
        return;
      }
      out.element[c] = join(parts, c, out.element.valid_rows, context);
    }
  }

 private:
  static Tensor join(std::span<const Element* const> parts, std::size_t c, std::int64_t rows,
                     WorkContext& context) {
    const Tensor& first = (*parts.front())[c];
    const Shape shape = first.shape().with(0, rows);
    if (first.dtype() == DType::bytes) return join_texts(parts, c, context).reshape(shape);
    std::size_t bytes = 0;
    for (const Element* part : parts) bytes += (*part)[c].nbytes();
    BufferPtr buffer = context.allocate(bytes);
    std::byte* to = buffer->data();
    for (const Element* part : parts) {
      (*part)[c].copy_to(to);
      to += (*part)[c].nbytes();
    }
    return Tensor(first.dtype(), shape, buffer->data(), buffer);
  }

  static Tensor join_texts(std::span<const Element* const> parts, std::size_t c,
                           WorkContext& context) {
    std::vector<std::string_view> texts;
    for (const Element* part : parts) {
      const Tensor dense = (*part)[c].contiguous() ? (*part)[c] : (*part)[c].clone();
      for (std::int64_t i = 0; i < dense.volume(); ++i) texts.push_back(dense.bytes_at(i));
    }
    return copy_texts(texts, context);
  }
};

class RebatchIterator final : public OrderIterator {
 public:
  RebatchIterator(const Node& node, const OpenContext& context,
                  const std::vector<std::int64_t>& sizes, bool drop_remainder)
      : input_(open_values(node, context), node, context),
        sizes_(sizes),
        drop_remainder_(drop_remainder),
        output_(node.spec()),
        program_(own_first_program(context, node)),
        stage_(context.run.stage_name(node)) {}

  std::size_t pull(std::span<ElementRef> out) override {
    for (;;) {
      const std::int64_t wanted = sizes_[turn_ % sizes_.size()];
      if (available_ >= wanted) {
        out[0] = make(wanted);
        return 1;
      }
      const bool failed = !sources_.empty() && is_error(sources_.back().batch);
      if (failed || !next_batch()) {
        if (available_ > 0 && !drop_remainder_) {
          out[0] = make(available_);
          // At the end, no empty batches follow a short one.
          while (!failed && sizes_[turn_ % sizes_.size()] == 0) ++turn_;
          return 1;
        }
        if (!failed) return 0;
        while (sources_.size() > 1) pop_front();
        available_ = 0;
        out[0] = std::move(sources_.front().batch);
        pop_front();
        return 1;
      }
    }
  }

  void save(StateWriter& state) const override {
    state.put(turn_);
    state.put(sources_.empty() ? 0 : static_cast<std::uint64_t>(sources_.front().row));
    input_.save(state);
  }
  void restore(StateReader& state) override {
    turn_ = state.get();
    const std::uint64_t row = state.get();
    input_.restore(state, [this](ElementRef item) { open(std::move(item)); });
    if (row == 0) return;
    if (sources_.empty() || row > static_cast<std::uint64_t>(sources_.front().rows)) {
      throw Error(ErrorCode::data_loss, "the state is damaged", Provenance{{}, -1, -1, stage_});
    }
    sources_.front().row = static_cast<std::int64_t>(row);
    available_ -= sources_.front().row;
  }

 private:
  /// A batch with the rows that have not come out yet: those from `row` on.
  struct Source {
    ElementRef batch;  // an error has no rows, and is the last source
    std::uint64_t number = 0;
    std::int64_t row = 0;
    std::int64_t rows = 0;
  };

  /// Returns false at the end.
  bool next_batch() {
    ElementRef item;
    if (!input_.next(item)) return false;
    open(std::move(item));
    return true;
  }

  void open(ElementRef item) {
    if (!is_error(item)) {
      std::string problem = check(item.payload->element);
      if (!problem.empty()) {
        item = error_at(item, Status(ErrorCode::mismatch, std::move(problem)), stage_);
      }
    }
    const std::uint64_t number = input_.hold(item);
    Source source{std::move(item), number, 0, 0};
    if (!is_error(source.batch)) {
      const Element& batch = source.batch.payload->element;
      source.rows = batch.valid_rows >= 0 ? batch.valid_rows : batch.empty() ? 0 : batch[0].dim(0);
      available_ += source.rows;
    }
    const bool empty = source.rows == 0 && !is_error(source.batch);
    sources_.push_back(std::move(source));
    if (empty) {
      input_.let_go(sources_.back().number);
      sources_.pop_back();
    }
  }

  static std::string check(const Element& batch) {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (batch[i].rank() == 0) return "component " + batch.name(i) + " is a scalar";
      if (batch[i].dim(0) != batch[0].dim(0) || batch[i].dim(0) < batch.valid_rows) {
        return "component " + batch.name(i) + " has " + std::to_string(batch[i].dim(0)) +
               " rows, " + batch.name(0) + " has " + std::to_string(batch[0].dim(0));
      }
    }
    return {};
  }

  void pop_front() {
    input_.let_go(sources_.front().number);
    sources_.pop_front();
  }

  /// REQUIRES: count <= available_.
  ElementRef make(std::int64_t count) {
    ElementRef item{0, mix_path(0, turn_++), program_, Payload::make()};
    available_ -= count;
    if (count == 0) item.payload->children.push_back(nothing());
    while (count > 0) {
      Source& source = sources_.front();
      const std::int64_t rows = std::min(count, source.rows - source.row);
      ElementRef part = slice(source, rows);
      item.ordinal = mix_path(item.ordinal, part.ordinal);
      item.payload->children.push_back(std::move(part));
      source.row += rows;
      count -= rows;
      if (source.row == source.rows) pop_front();
    }
    return item;
  }

  static ElementRef slice(const Source& source, std::int64_t rows) {
    const Payload& batch = *source.batch.payload;
    Ref<Payload> part = Payload::make();
    part->element.reset(batch.element.names());
    part->element.valid_rows = rows;
    for (std::size_t i = 0; i < batch.element.size(); ++i) {
      part->element[i] = batch.element[i].slice(0, source.row, source.row + rows);
    }
    part->origin = batch.origin;
    part->index = batch.index;
    part->shard = batch.shard;
    part->offset = batch.offset;
    return ref_to(std::move(part),
                  mix_path(source.batch.ordinal, static_cast<std::uint64_t>(source.row)));
  }

  /// Returns an empty batch. Unknown dimensions are 0.
  ElementRef nothing() const {
    std::vector<std::string> names;
    for (const ComponentSpec& component : output_) names.push_back(component.name);
    Element element(Names::intern(names));
    element.valid_rows = 0;
    for (std::size_t i = 0; i < output_.size(); ++i) {
      Shape shape = output_[i].shape.has_rank() ? output_[i].shape : Shape{0};
      for (int axis = 0; axis < shape.rank(); ++axis) {
        if (axis == 0 || shape[axis] < 0) shape = shape.with(axis, 0);
      }
      element[i] = Tensor(output_[i].dtype, shape, nullptr, BufferPtr());
    }
    return ref_to(Payload::make(std::move(element)), 0);
  }

  HeldInput input_;
  const std::vector<std::int64_t>& sizes_;
  bool drop_remainder_;
  const Spec& output_;
  ProgramPtr program_;
  std::string stage_;
  std::deque<Source> sources_;  // oldest first
  std::int64_t available_ = 0;  // rows in sources_
  std::uint64_t turn_ = 0;      // batches so far
};

Spec rebatched(const Spec& input, const std::vector<std::int64_t>& sizes, bool drop_remainder) {
  const bool known = drop_remainder && std::equal(sizes.begin() + 1, sizes.end(), sizes.begin());
  std::vector<ComponentSpec> components(input.begin(), input.end());
  for (ComponentSpec& component : components) {
    if (!component.shape.has_rank()) continue;
    if (component.shape.rank() == 0) {
      bad_stage("rebatch", "component " + component.name + " is a scalar");
    }
    component.shape = component.shape.with(0, known ? sizes.front() : Shape::kUnknown);
  }
  return Spec(std::move(components));
}

class RebatchNode final : public Node {
 public:
  RebatchNode(const NodePtr& source, std::vector<std::int64_t> sizes, BatchOptions options)
      : Node({source}, rebatched(source->spec(), sizes, options.drop_remainder),
             source->cardinality() == kInfinite ? kInfinite : kUnknown),
        sizes_(std::move(sizes)),
        options_(options) {}

  std::string name() const override { return "rebatch"; }
  Resume find_resume() const override { return Resume::work; }
  void describe(Description& description) const override {
    for (const std::int64_t size : sizes_) description.add("size", size);
    description.add("drop_remainder", options_.drop_remainder);
  }
  std::optional<BatchRows> find_batch_rows() const override {
    BatchRows rows = rows_of(std::ranges::max(sizes_), options_.drop_remainder);
    if (std::ranges::min(sizes_) == rows.full) return rows;
    rows.full = 0;
    rows.fewer = BatchRows::Fewer::any;
    return rows;
  }
  Execution execution() const override { return Execution::held; }
  Pending find_pending() const override { return Pending::fallible; }
  std::unique_ptr<Program> first_program(RunServices& run) const override {
    static const auto op = std::make_shared<const JoinOp>();
    return std::make_unique<Program>(op, run.counters(*this), run.stage_name(*this));
  }
  OrderIteratorPtr open(const OpenContext& context) const override {
    return std::make_unique<RebatchIterator>(*this, context, sizes_, options_.drop_remainder);
  }

 private:
  std::vector<std::int64_t> sizes_;
  BatchOptions options_;
};

}  // namespace

NodePtr make_rebatch(NodePtr input, std::vector<std::int64_t> sizes, BatchOptions options) {
  for (const std::int64_t size : sizes) {
    if (size < 0) {
      bad_stage("rebatch", "a size must not be negative, such as " + std::to_string(size));
    }
  }
  if (sizes.empty() || std::ranges::max(sizes) == 0) {
    bad_stage("rebatch", "a size must be positive");
  }
  return std::make_shared<RebatchNode>(input, std::move(sizes), options);
}

}  // namespace penstock
