#include "pipeline/stages/values.h"

#include <algorithm>

#include "pipeline/stage/support.h"

namespace penstock {
namespace {

class KeyOp final : public WorkOp {
 public:
  KeyOp(KeyFn key, std::string name) : key_(std::move(key)), name_(std::move(name)) {}

  std::string name() const override { return name_; }
  void describe(Description&) const override {}
  Spec infer(const Spec& input) const override { return input; }
  void run(std::span<WorkItem> items, WorkContext&) const override {
    for (WorkItem& item : items) {
      if (!item.status.ok() || !item.keep) continue;
      try {
        item.key = key_(item.element);
      } catch (...) {
        item.status = status_from_current_exception();
      }
    }
  }

 private:
  KeyFn key_;
  std::string name_;
};

class ItemsIterator final : public OrderIterator {
 public:
  ItemsIterator(const std::vector<ElementRef>& items, std::uint64_t path)
      : items_(items), path_(path) {}

  std::size_t pull(std::span<ElementRef> out) override {
    const std::size_t count = std::min<std::size_t>(out.size(), items_.size() - position_);
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = items_[position_ + i];
      out[i].ordinal = mix_path(path_, out[i].ordinal);
    }
    position_ += count;
    return count;
  }
  void save(StateWriter& state) const override { state.put(position_); }
  void restore(StateReader& state) override {
    position_ = std::min<std::uint64_t>(state.get(), items_.size());
  }

 private:
  const std::vector<ElementRef>& items_;
  std::uint64_t path_;
  std::uint64_t position_ = 0;
};

class ItemsNode final : public Node {
 public:
  ItemsNode(Spec spec, std::vector<ElementRef> items, std::int64_t cardinality)
      : Node({}, std::move(spec), cardinality), items_(std::move(items)) {}
  std::string name() const override { return "elements"; }
  void describe(Description&) const override {}
  OrderIteratorPtr open(const OpenContext& context) const override {
    return std::make_unique<ItemsIterator>(items_, context.path);
  }

 private:
  std::vector<ElementRef> items_;
};

}  // namespace

OrderIteratorPtr open_values(const Node& node, const OpenContext& context) {
  const Node& input = *node.inputs().front();
  OrderIteratorPtr opened = input.open(context);
  if (input.pending() == Pending::none) return opened;
  return context.run.values(node, std::move(opened), context);
}

WorkOpPtr make_key_op(KeyFn key, std::string name) {
  if (!key) throw Error(ErrorCode::invalid_argument, "the callable of '" + name + "' is empty");
  return std::make_shared<KeyOp>(std::move(key), std::move(name));
}

Program::Step key_step(const Node& node, RunServices& run, const WorkOpPtr& op, bool leaves) {
  return {.op = op,
          .counters = run.counters(node),
          .stage = run.stage_name(node),
          .fixed_bytes = fixed_payload_bytes(node.inputs().front()->spec()),
          .leaves = leaves};
}

OrderIteratorPtr open_keyed(const Node& node, const OpenContext& context) {
  OrderIteratorPtr keyed = extend(node.inputs().front()->open(context), context, node);
  return context.run.values(node, std::move(keyed), context);
}

bool HeldInput::next(ElementRef& out) {
  if (used_ == ahead_.size()) {
    if (ended_) return false;
    if (!states_.empty()) forget(std::prev(states_.end()), next_);
    StateWriter before;
    input_->save(before);
    ahead_.resize(kAhead);
    ahead_.resize(input_->pull(ahead_));
    used_ = 0;
    ended_ = ahead_.empty();
    states_[next_] = before.take();
    if (ended_) return false;
  }
  out = std::move(ahead_[used_++]);
  ++next_;
  return true;
}

std::uint64_t HeldInput::hold(const ElementRef& item) {
  held_.insert(next_ - 1);
  if (!values_.charge(item, held_.size())) values_.refuse();
  return next_ - 1;
}

void HeldInput::let_go(std::uint64_t number) {
  if (held_.erase(number) == 0) return;
  const auto following = states_.upper_bound(number);
  if (following == states_.end()) return;  // items behind the last state may still be held
  forget(std::prev(following), following->first);
}

// Drops the state unless an item is held that lies behind it and before `end`.
void HeldInput::forget(States::iterator state, std::uint64_t end) {
  const auto held = held_.lower_bound(state->first);
  if (held == held_.end() || *held >= end) states_.erase(state);
}

void HeldInput::save(StateWriter& state) const {
  auto from = states_.begin();
  if (!held_.empty()) {
    from = std::prev(states_.upper_bound(*held_.begin()));
  } else if (used_ < ahead_.size()) {
    from = std::prev(states_.end());
  } else {
    from = states_.end();
  }
  const std::uint64_t first = from == states_.end() ? next_ : from->first;
  if (from == states_.end()) {
    StateWriter now;
    input_->save(now);
    state.put_bytes(now.bytes());
  } else {
    state.put_bytes(from->second);
  }
  state.put(next_ - first);
  state.put(ended_ ? 1 : 0);
  state.put(held_.size());
  std::uint64_t last = first;
  for (const std::uint64_t number : held_) {
    state.put(number - last);
    last = number;
  }
}

void HeldInput::restore(StateReader& state, const std::function<void(ElementRef)>& keep) {
  StateReader input(state.get_bytes());
  input_->restore(input);
  const std::uint64_t passed = state.get();
  const bool ended = state.get() != 0;
  const std::uint64_t held = state.get();
  std::uint64_t wanted = held > 0 ? state.get() : passed;
  std::uint64_t found = 0;
  for (std::uint64_t i = 0; i < passed; ++i) {
    ElementRef item;
    if (!next(item)) {
      throw Error(ErrorCode::data_loss, "the state is behind the end of the input");
    }
    if (const Error* const error = run_error(item)) throw Error(*error);
    if (i != wanted || found == held) continue;
    keep(std::move(item));
    if (++found < held) wanted += state.get();
  }
  if (found < held) throw Error(ErrorCode::data_loss, "the state is damaged");
  ElementRef none;  // errors that are skipped may lie in front of the end
  if (!ended || !next(none)) return;
  if (const Error* const error = run_error(none)) throw Error(*error);
  throw Error(ErrorCode::data_loss, "the input has more elements than when the state was saved");
}

NodePtr make_items(Spec spec, std::vector<ElementRef> items) {
  const auto count = static_cast<std::int64_t>(items.size());
  return std::make_shared<ItemsNode>(std::move(spec), std::move(items), count);
}

NodePtr make_no_items(Spec spec) {
  return std::make_shared<ItemsNode>(std::move(spec), std::vector<ElementRef>(), kUnknown);
}

}  // namespace penstock
