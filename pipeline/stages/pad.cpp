#include "pipeline/stages/pad.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "pipeline/core/sizes.h"
#include "pipeline/core/texts.h"
#include "pipeline/stage/support.h"

namespace penstock {
namespace {

Tensor padded(const Tensor& rows, std::int64_t size, ReadContext& memory) {
  std::vector<std::int64_t> dims = {size};
  for (int axis = 1; axis < rows.rank(); ++axis) dims.push_back(rows.dim(axis));
  const Shape shape(dims);
  if (rows.dtype() == DType::bytes) {
    std::vector<std::string_view> texts(static_cast<std::size_t>(shape.volume()));
    for (std::int64_t i = 0; i < rows.volume(); ++i) {
      texts[static_cast<std::size_t>(i)] = rows.bytes_at(i);
    }
    return copy_texts(texts, memory).reshape(shape);
  }
  const std::size_t bytes = bytes_of(rows.dtype(), shape);
  BufferPtr buffer = memory.allocate(bytes);
  rows.copy_to(buffer->data());
  std::memset(buffer->data() + rows.nbytes(), 0, bytes - rows.nbytes());
  return Tensor(rows.dtype(), shape, buffer->data(), buffer);
}

std::int64_t rows_in(const Tensor& component) {
  return component.rank() > 0 ? component.dim(0) : -1;
}

/// Throws Error{mismatch} if the batch has more than `size` rows, as those of a map may whose spec
/// leaves their number open.
void check_rows(const Element& batch, std::int64_t size) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::int64_t rows = rows_in(batch[i]);
    if (rows >= 0 && rows <= size) continue;
    throw Error(ErrorCode::mismatch, rows < 0 ? "an element without rows is no batch"
                                              : "a batch of " + std::to_string(rows) +
                                                    " rows can't be filled up to " +
                                                    std::to_string(size));
  }
}

/// Returns a batch of this spec without rows.
Element empty_batch(const Spec& spec) {
  std::vector<std::string> names;
  for (const ComponentSpec& component : spec) names.push_back(component.name);
  Element batch(Names::intern(names));
  for (std::size_t i = 0; i < spec.size(); ++i) {
    std::vector<std::int64_t> dims = {0};
    for (int axis = 1; axis < spec[i].shape.rank(); ++axis) dims.push_back(spec[i].shape[axis]);
    batch[i] = spec[i].dtype == DType::bytes ? Tensor::of_bytes({}).reshape(Shape(dims))
                                             : Tensor::allocate(spec[i].dtype, Shape(dims));
  }
  batch.valid_rows = 0;
  return batch;
}

class PadIterator final : public OrderIterator {
 public:
  PadIterator(OrderIteratorPtr input, const Node& node, std::int64_t size, std::uint64_t steps,
              const OpenContext& context)
      : input_(std::move(input)),
        node_(node),
        size_(size),
        steps_(steps),
        path_(context.path),
        run_(context.run) {}

  std::size_t pull(std::span<ElementRef> out) override {
    const std::size_t pulled = ended_ ? 0 : input_->pull(out);
    ended_ = pulled == 0;
    for (std::size_t i = 0; i < pulled; ++i) {
      if (is_error(out[i])) continue;
      const Element& batch = out[i].payload->element;
      if (!is_full(batch)) out[i] = fill(batch, out[i]);
      if (!is_error(out[i])) ++given_;
    }
    if (pulled > 0 || given_ >= steps_) return pulled;
    const Element none = empty_batch(node_.spec());
    out[0] = fill(none, ref_to({}, mix_path(path_, given_++)));
    return 1;
  }
  void save(StateWriter& state) const override {
    state.put(given_);
    state.put(ended_ ? 1 : 0);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    given_ = state.get();
    ended_ = state.get() != 0;
    input_->restore(state);
  }

 private:
  bool is_full(const Element& batch) const {
    bool full = batch.valid_rows >= 0;
    for (std::size_t i = 0; i < batch.size() && full; ++i) full = rows_in(batch[i]) == size_;
    return full;
  }
  /// Returns the filled-up batch in place of `item`.
  ElementRef fill(const Element& batch, const ElementRef& item) const {
    try {
      check_rows(batch, size_);
      Element whole(batch.names());
      for (std::size_t i = 0; i < batch.size(); ++i) {
        whole[i] =
            rows_in(batch[i]) == size_ ? batch[i] : padded(batch[i], size_, run_.stream_memory());
      }
      whole.valid_rows =
          batch.valid_rows >= 0 || batch.empty() ? batch.valid_rows : batch[0].dim(0);
      return ref_to(Payload::make(std::move(whole)), item.ordinal);
    } catch (...) {
      return error_at(item, status_from_current_exception(), run_.stage_name(node_));
    }
  }

  OrderIteratorPtr input_;
  const Node& node_;
  std::int64_t size_;
  std::uint64_t steps_;
  std::uint64_t path_;
  RunServices& run_;
  std::uint64_t given_ = 0;
  bool ended_ = false;
};

class PadNode final : public Node {
 public:
  PadNode(NodePtr source, Spec spec, std::int64_t size, std::uint64_t steps)
      : Node({source}, std::move(spec), static_cast<std::int64_t>(steps)),
        size_(size),
        steps_(steps) {}
  std::string name() const override { return "pad_batches"; }
  void describe(Description& description) const override { description.add("batches", steps_); }
  Pending find_pending() const override { return Pending::none; }
  bool pads() const override { return true; }
  std::optional<BatchRows> find_batch_rows() const override {
    // Full batches pass through, and those of a cache come again.
    return BatchRows{.full = size_,
                     .most = size_,
                     .fewer = BatchRows::Fewer::none,
                     .padded = true,
                     .kept = input().batch_rows()->kept};
  }
  NodePtr over(NodePtr input) const override { return make_pad_batches(std::move(input)); }
  OrderIteratorPtr open(const OpenContext& context) const override {
    OrderIteratorPtr batches = input().open(context);
    if (input().pending() != Pending::none) {
      batches = context.run.values(*this, std::move(batches), context);
    }
    return std::make_unique<PadIterator>(std::move(batches), *this, size_, steps_, context);
  }

 private:
  std::int64_t size_;
  std::uint64_t steps_;
};

struct Most {
  std::int64_t elements = 0;  // the cardinality of this node in the largest shard
  bool sharded = false;       // false: the cardinality is the same in all shards
};

/// Returns the same value in every shard. Throws if that cannot be known.
Most most_elements(const Node& node) {
  if (node.pads()) return {node.cardinality(), false};
  bool sharded = false;
  std::vector<std::int64_t> inputs;
  for (const NodePtr& input : node.inputs()) {
    const Most most = most_elements(*input);
    sharded = sharded || most.sharded;
    inputs.push_back(most.elements);
  }
  if (const std::optional<WhichShard> shard = node.shard()) {
    const std::int64_t all = inputs[0];
    const auto count = static_cast<std::int64_t>(shard->count);
    return {all < 0 ? all : all / count + (all % count > 0 ? 1 : 0), true};
  }
  if (!sharded || node.cardinality() == kUnknown) return {node.cardinality(), false};
  const std::optional<std::int64_t> elements = node.cardinality_of(inputs);
  if (!elements) {
    bad_stage("pad_batches", "how many batches the largest shard gives is not known: " +
                                 node.name() + " is between it and the shard");
  }
  return {*elements, true};
}

/// Returns the first stage that gives as unknown a number of elements as `last`.
const Node& uncounted(const Node& last) {
  const Node* node = &last;
  for (;;) {
    const auto found = std::ranges::find_if(node->inputs(), [&](const NodePtr& input) {
      return input->cardinality() == last.cardinality();
    });
    if (found == node->inputs().end()) return *node;
    node = found->get();
  }
}

/// Returns the rows of a full batch. Throws if batches have no such number.
std::int64_t rows_of_each(const Node& batches) {
  const std::optional<BatchRows>& rows = batches.batch_rows();
  if (!rows) {
    bad_stage("pad_batches", "it pads batches, but the elements of " + batches.name() +
                                 " may not be batches; put it after a batch");
  }
  if (!rows->divisible || rows->full == 0) {
    bad_stage("pad_batches",
              "it fills batches up, but those of " + batches.name() +
                  (rows->divisible ? " have different numbers of rows" : " are one whole each"));
  }
  return rows->full;
}

}  // namespace

NodePtr make_pad_batches(NodePtr input) {
  const std::int64_t size = rows_of_each(*input);
  std::vector<ComponentSpec> components(input->spec().begin(), input->spec().end());
  for (ComponentSpec& component : components) {
    std::vector<std::int64_t> dims;
    for (int axis = 0; component.shape.has_rank() && axis < component.shape.rank(); ++axis) {
      dims.push_back(component.shape[axis]);
    }
    if (!dims.empty()) dims[0] = size;
    component.shape = Shape(dims);
    if (dims.empty() || !component.shape.is_static()) {
      bad_stage("pad_batches",
                "rows must be of fixed size, and the input is " + input->spec().to_string());
    }
  }
  const std::int64_t steps = most_elements(*input).elements;
  if (steps < 0) {
    const Node& stage = uncounted(*input);
    bad_stage("pad_batches",
              "how many batches there are is not known: " + stage.name() + " gives " +
                  (steps == kInfinite ? "infinitely many" : "an unknown number of") + " elements");
  }
  return std::make_shared<PadNode>(std::move(input), Spec(std::move(components)), size,
                                   static_cast<std::uint64_t>(steps));
}

}  // namespace penstock
