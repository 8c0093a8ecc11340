#include "pipeline/stages/unbatch.h"

#include <algorithm>

#include "pipeline/stage/support.h"

namespace penstock {
namespace {

class UnbatchIterator final : public OrderIterator {
 public:
  UnbatchIterator(OrderIteratorPtr input, std::string stage)
      : input_(std::move(input)), stage_(std::move(stage)) {}

  std::size_t pull(std::span<ElementRef> out) override {
    while (row_ >= rows_) {
      StateWriter before(std::move(before_));
      input_->save(before);
      before_ = before.take();
      batch_ = {};  // the next batch may need its slot
      if (input_->pull({&batch_, 1}) == 0) return 0;
      row_ = rows_ = 0;
      if (!is_error(batch_)) start();
      if (is_error(batch_)) {
        out[0] = std::move(batch_);
        return 1;
      }
    }
    std::size_t count = 0;
    const Element& batch = batch_.payload->element;
    for (; count < out.size() && row_ < rows_; ++count, ++row_) {
      Ref<Payload> payload = Payload::make();
      payload->element.reset(batch.names());
      for (std::size_t i = 0; i < batch.size(); ++i) payload->element[i] = row_of(batch[i]);
      out[count] =
          ref_to(std::move(payload), mix_path(batch_.ordinal, static_cast<std::uint64_t>(row_)));
    }
    return count;
  }

  // A batch that was partly delivered is made again.
  void save(StateWriter& state) const override {
    const bool within = row_ < rows_;
    state.put(within ? static_cast<std::uint64_t>(row_) : 0);
    if (within) {
      state.put_bytes(before_);
    } else {
      StateWriter now;
      input_->save(now);
      state.put_bytes(now.bytes());
    }
  }
  void restore(StateReader& state) override {
    const auto row = static_cast<std::int64_t>(state.get());
    StateReader input(state.get_bytes());
    input_->restore(input);
    if (row == 0) return;
    ElementRef first;
    const bool ended = pull({&first, 1}) == 0;
    if (const Error* const error = run_error(first)) throw Error(*error);
    if (ended || row > rows_) {
      throw Error(ErrorCode::data_loss, "the state is behind the end of the input");
    }
    row_ = row;
  }

 private:
  /// Returns one row. Small values are copied, so that they do not keep the slot of the whole
  /// batch.
  Tensor row_of(const Tensor& batch) const {
    constexpr std::size_t kSmall = 48;  // tensors hold that much without a buffer
    Tensor row = batch[row_];
    return row.dtype() != DType::bytes && row.nbytes() <= kSmall ? row.clone() : row;
  }

  void start() {
    const Element& batch = batch_.payload->element;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      std::string problem;
      if (batch[i].rank() == 0) {
        problem = "component " + batch.name(i) + " is a scalar";
      } else if (i > 0 && batch[i].dim(0) != batch[0].dim(0)) {
        problem = "component " + batch.name(i) + " has " + std::to_string(batch[i].dim(0)) +
                  " rows, " + batch.name(0) + " has " + std::to_string(batch[0].dim(0));
      }
      if (!problem.empty()) {
        Status status(Error(ErrorCode::mismatch, std::move(problem)));
        batch_ = ref_to(Payload::make(locate(std::move(status), {}, stage_)), batch_.ordinal);
        return;
      }
    }
    rows_ = batch.valid_rows >= 0 ? batch.valid_rows : batch.empty() ? 0 : batch[0].dim(0);
  }

  OrderIteratorPtr input_;
  std::string stage_;
  ElementRef batch_;
  std::int64_t row_ = 0;
  std::int64_t rows_ = 0;
  std::string before_;  // the input's state before the batch
};

class UnbatchNode final : public Node {
 public:
  explicit UnbatchNode(NodePtr source)
      : Node({source}, unbatched(source->spec()), unbatched(*source)) {}
  std::string name() const override { return "unbatch"; }
  bool holds_values() const override { return true; }
  Resume find_resume() const override { return Resume::work; }  // one batch is made again
  void describe(Description&) const override {}
  Pending find_pending() const override { return Pending::none; }
  OrderIteratorPtr open(const OpenContext& context) const override {
    OrderIteratorPtr source = input().open(context);
    if (input().pending() != Pending::none) {
      source = context.run.values(*this, std::move(source), context);
    }
    return std::make_unique<UnbatchIterator>(std::move(source), context.run.stage_name(*this));
  }

 private:
  static Spec unbatched(const Spec& batch) {
    std::vector<ComponentSpec> rows;
    std::int64_t extent = Shape::kUnknown;
    for (const ComponentSpec& component : batch) {
      if (!component.shape.has_rank()) {
        rows.push_back(component);
        continue;
      }
      if (component.shape.rank() == 0) {
        bad_stage("unbatch", "component " + component.name + " is a scalar");
      }
      const std::int64_t rows_here = component.shape[0];
      if (extent != Shape::kUnknown && rows_here != Shape::kUnknown && rows_here != extent) {
        bad_stage("unbatch", "components have different numbers of rows: " + batch.to_string());
      }
      if (rows_here != Shape::kUnknown) extent = rows_here;
      rows.push_back({component.name, component.dtype, component.shape.drop_front()});
    }
    return Spec(std::move(rows));
  }
  /// True if batches may have rows that are not samples.
  static bool may_pad(const Node& batches) {
    if (batches.pads()) return true;
    if (batches.batches()) return false;
    return std::ranges::any_of(batches.inputs(),
                               [](const NodePtr& node) { return may_pad(*node); });
  }
  static std::int64_t unbatched(const Node& batches) {
    const std::int64_t count = batches.cardinality();
    if (count == kInfinite || count == 0 || batches.spec().size() == 0) return count;
    if (may_pad(batches)) return kUnknown;
    const Shape& shape = batches.spec()[0].shape;
    if (count < 0 || !shape.has_rank() || shape[0] == Shape::kUnknown) return kUnknown;
    return count * shape[0];
  }
};

}  // namespace

NodePtr make_unbatch(NodePtr input) {
  return std::make_shared<UnbatchNode>(std::move(input));
}

}  // namespace penstock
