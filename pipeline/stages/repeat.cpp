#include "pipeline/stages/repeat.h"

#include <memory>

#include "pipeline/stage/batch_rows.h"
#include "pipeline/stage/closed_counts.h"
#include "pipeline/stage/run_services.h"

namespace penstock {
namespace {

/// Repeats its input. Infinite repetitions continue as long as each one gives something. If failed
/// elements are skipped, it may be that no element of an input remains. So the first elements of a
/// pass are made here, up to one that did not fail. Records of a source stay references and are
/// read again where they are used, as later stages count them whether they can be read or not.
class RepeatIterator final : public OrderIterator {
 public:
  RepeatIterator(const Node& input, std::int64_t count, const OpenContext& context)
      : input_(input),
        count_(count),
        context_(context),
        may_come_to_nothing_(count < 0 && context.run.skips()),
        records_(input.pending() == Pending::infallible) {
    if (count != 0) open();  // now, because only an open input knows whether its caches are full
  }

  std::size_t pull(std::span<ElementRef> out) override {
    while (!ended_) {
      if (!current_) {
        context_.run.check_stop();  // a later stage may skip all elements, for ever
        if (count_ >= 0 && pass_ >= static_cast<std::uint64_t>(count_)) break;
        open();
      }
      const std::size_t pulled = current_->pull(out);
      if (pulled > 0) {
        if (!gave_) gave_ = !may_come_to_nothing_ || make_first(out.first(pulled));
        return pulled;
      }
      if (!gave_ && (count_ < 0 || input_.cardinality() == 0)) break;
      current_.reset();
      ++pass_;
    }
    ended_ = true;
    return 0;
  }

  void save(StateWriter& state) const override {
    state.put(pass_);
    state.put((current_ ? 1U : 0U) | (gave_ ? 2U : 0U) | (ended_ ? 4U : 0U));
    closed_->save(state);
    if (current_) current_->save(state);
  }
  void restore(StateReader& state) override {
    pass_ = state.get();
    const std::uint64_t flags = state.get();
    current_.reset();
    closed_->restore(state);
    if ((flags & 1) != 0) {
      open();
      current_->restore(state);
    }
    gave_ = (flags & 2) != 0;
    ended_ = (flags & 4) != 0;
  }

 private:
  /// True if one of the items did not fail.
  bool make_first(std::span<ElementRef> items) const {
    for (ElementRef& item : items) {
      const bool made = !item.program;
      ElementRef value = made ? item : context_.run.made(item, context_);
      const bool good = !is_error(value);
      if (!made && !records_) item = std::move(value);
      if (good) return true;
    }
    return false;
  }

  void open() {
    current_ = input_.open(context_.repetition(pass_).closed_by(closed_));
    gave_ = false;
  }

  const Node& input_;
  std::int64_t count_;
  OpenContext context_;
  const std::shared_ptr<ClosedCounts> closed_ = std::make_shared<ClosedCounts>(context_);
  bool may_come_to_nothing_;
  bool records_;  // items are records of a source, which stay references
  OrderIteratorPtr current_;
  std::uint64_t pass_ = 0;
  bool gave_ = false;
  bool ended_ = false;
};

class RepeatNode final : public Node {
 public:
  RepeatNode(NodePtr source, std::int64_t count)
      : Node({source}, source->spec(), repeated(source->cardinality(), count)), count_(count) {}

  std::string name() const override { return "repeat"; }
  std::optional<BatchRows> find_batch_rows() const override {
    return count_ == 0 || count_ == 1 ? input().batch_rows() : rows_in_any_order(input());
  }
  void describe(Description& description) const override { description.add("count", count_); }
  std::optional<std::int64_t> cardinality_of(std::span<const std::int64_t> inputs) const override {
    return repeated(inputs[0], count_);
  }
  OrderIteratorPtr open(const OpenContext& context) const override {
    return std::make_unique<RepeatIterator>(input(), count_, context);
  }

 private:
  static std::int64_t repeated(std::int64_t size, std::int64_t count) {
    if (count == 0 || size == 0) return 0;
    if (count < 0) return size == kUnknown ? kUnknown : kInfinite;
    if (size < 0) return size;
    return size > INT64_MAX / count ? kInfinite : size * count;
  }

  std::int64_t count_;
};

}  // namespace

NodePtr make_repeat(NodePtr input, std::int64_t count) {
  return std::make_shared<RepeatNode>(std::move(input), count < 0 ? kInfinite : count);
}

}  // namespace penstock
