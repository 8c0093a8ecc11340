#include "pipeline/stages/window.h"

#include <deque>

#include "pipeline/stage/batch_rows.h"
#include "pipeline/stage/support.h"
#include "pipeline/stages/batch.h"
#include "pipeline/stages/interleave.h"
#include "pipeline/stages/values.h"

namespace penstock {
namespace {

struct Sliding {
  std::uint64_t size, shift, stride;
  bool drop_remainder;

  /// Returns the number of elements from the first to the last of a window.
  std::uint64_t span() const noexcept { return (size - 1) * stride + 1; }
};

/// An iterator over windows, which are items whose payloads hold the elements.
class WindowIterator final : public OrderIterator {
 public:
  WindowIterator(const Node& node, const OpenContext& context, const Sliding& sliding,
                 ProgramPtr program)
      : input_(open_values(node, context), node, context),
        sliding_(sliding),
        program_(std::move(program)) {}

  std::size_t pull(std::span<ElementRef> out) override {
    for (;;) {
      while (!ended_ && (gap_ > 0 || kept_.size() < sliding_.span())) {
        ElementRef item;
        if (!input_.next(item)) {
          ended_ = true;
        } else if (gap_ > 0) {
          --gap_;
          if (!is_error(item)) continue;
          out[0] = std::move(item);
          return 1;
        } else if (is_error(item)) {
          keep({});
          out[0] = std::move(item);
          return 1;
        } else {
          keep(std::move(item));
        }
      }
      if (kept_.empty() || (sliding_.drop_remainder && kept_.size() < sliding_.span())) return 0;
      if (make(out[0])) return 1;
    }
  }

  void save(StateWriter& state) const override {
    state.put(gap_);
    state.put(ended_ ? 1 : 0);
    input_.save(state);
  }
  void restore(StateReader& state) override {
    gap_ = state.get();
    ended_ = state.get() != 0;
    input_.restore(
        state, [this](ElementRef item) { keep(is_error(item) ? ElementRef() : std::move(item)); });
  }

 private:
  struct Kept {
    ElementRef item;  // without a payload if it failed
    std::uint64_t number = 0;
  };

  void keep(ElementRef item) {
    const std::uint64_t number = input_.hold(item);
    kept_.push_back({std::move(item), number});
  }

  /// Makes the window at the front, unless an element of it failed, and moves to the next window.
  bool make(ElementRef& out) {
    Ref<Payload> payload = Payload::make();
    std::uint64_t ordinal = 0;
    bool complete = true;
    for (std::uint64_t i = 0; i < sliding_.span() && i < kept_.size(); i += sliding_.stride) {
      const ElementRef& item = kept_[i].item;
      complete = complete && item.payload;
      ordinal = mix_path(ordinal, item.ordinal);
      if (complete) payload->children.push_back(item);
    }
    for (std::uint64_t i = 0; i < sliding_.shift; ++i) {
      if (kept_.empty()) {
        gap_ = sliding_.shift - i;
        break;
      }
      input_.let_go(kept_.front().number);
      kept_.pop_front();
    }
    if (complete) out = ElementRef{0, ordinal, program_, std::move(payload)};
    return complete;
  }

  HeldInput input_;
  Sliding sliding_;
  ProgramPtr program_;
  std::deque<Kept> kept_;  // elements from the start of the next window on
  std::uint64_t gap_ = 0;  // elements before that window
  bool ended_ = false;
};

std::int64_t windows_in(std::int64_t elements, const Sliding& sliding) {
  if (elements < 0) return elements;
  const auto count = static_cast<std::uint64_t>(elements);
  if (!sliding.drop_remainder) {
    return static_cast<std::int64_t>(count / sliding.shift + (count % sliding.shift > 0 ? 1 : 0));
  }
  if (count < sliding.span()) return 0;
  return static_cast<std::int64_t>((count - sliding.span()) / sliding.shift + 1);
}

class WindowNode final : public Node {
 public:
  WindowNode(const NodePtr& source, const Sliding& sliding, WindowFn each, NodePtr made)
      : Node({source},
             made ? made->spec()
                  : batched(source->spec(), sliding.drop_remainder
                                                ? static_cast<std::int64_t>(sliding.size)
                                                : Shape::kUnknown),
             made ? kUnknown : windows_in(source->cardinality(), sliding)),
        sliding_(sliding),
        each_(std::move(each)),
        made_(std::move(made)) {}

  std::string name() const override { return "window"; }
  Resume find_resume() const override { return Resume::work; }
  bool deterministic() const override { return !each_; }
  void describe(Description& description) const override {
    description.add("size", sliding_.size);
    description.add("shift", sliding_.shift);
    description.add("stride", sliding_.stride);
    description.add("drop_remainder", sliding_.drop_remainder);
    if (made_) describe_inner(*made_, description);
  }
  std::optional<BatchRows> find_batch_rows() const override {
    if (made_) return rows_in_any_order(*made_);
    BatchRows rows = rows_of(static_cast<std::int64_t>(sliding_.size), sliding_.drop_remainder);
    const bool overlap = sliding_.shift < sliding_.span();
    if (overlap && !sliding_.drop_remainder) rows.fewer = BatchRows::Fewer::any;
    return rows;
  }
  // Consecutive windows without overlap are batches.
  NodePtr batched_over(NodePtr elements) const override {
    if (made_ || sliding_.shift != sliding_.size || sliding_.stride != 1) return nullptr;
    return make_window(std::move(elements), static_cast<std::int64_t>(sliding_.size),
                       {.shift = static_cast<std::int64_t>(sliding_.shift)}, nullptr);
  }
  Execution execution() const override { return Execution::held; }
  Pending find_pending() const override { return Pending::fallible; }
  bool seeded() const override { return each_ != nullptr; }

  std::unique_ptr<Program> first_program(RunServices& run) const override {
    return std::make_unique<Program>(make_stack_op(), run.counters(*this), run.stage_name(*this));
  }
  OrderIteratorPtr open(const OpenContext& context) const override {
    const ProgramPtr stack = own_first_program(context, *this);
    auto windows = [this, stack](const OpenContext& here) -> OrderIteratorPtr {
      return std::make_unique<WindowIterator>(*this, here, sliding_, stack);
    };
    if (!each_) return windows(context);
    const auto expand = [this](const ElementRef& window) {
      return each_(Dataset(make_items(input().spec(), window.payload->children)));
    };
    return open_interleave(windows, expand, spec(), {.cycle = 1}, context,
                           context.run.stage_name(*this));
  }

 private:
  Sliding sliding_;
  WindowFn each_;
  NodePtr made_;  // of an empty window
};

}  // namespace

void describe_inner(const Node& node, Description& description) {
  for (const NodePtr& input : node.inputs()) describe_inner(*input, description);
  Description inner;
  node.describe(inner);
  const std::string options = inner.to_string();
  description.add("each", node.name() + (options.empty() ? "" : "(" + options + ")"));
}

NodePtr make_window(NodePtr input, std::int64_t size, WindowOptions options, WindowFn each) {
  if (options.shift == 0) options.shift = size;
  const auto positive = [](const char* what, std::int64_t value) {
    if (value <= 0) {
      bad_stage("window", std::string(what) + " must be positive, not " + std::to_string(value));
    }
    return static_cast<std::uint64_t>(value);
  };
  const Sliding sliding{positive("size", size), positive("shift", options.shift),
                        positive("stride", options.stride), options.drop_remainder};
  if (sliding.size > INT64_MAX / sliding.stride) {
    bad_stage("window", "size times stride is too large");
  }
  NodePtr made;
  if (each) made = each(Dataset(make_no_items(input->spec()))).node();
  return std::make_shared<WindowNode>(input, sliding, std::move(each), std::move(made));
}

}  // namespace penstock
