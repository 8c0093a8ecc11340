#include "pipeline/stages/take.h"

#include <algorithm>
#include <array>

#include "pipeline/stage/cardinality.h"
#include "pipeline/stage/support.h"

namespace penstock {
namespace {

/// The positions [first, first + size) of an indexed input.
class SliceIterator final : public IndexedIterator {
 public:
  SliceIterator(OrderIteratorPtr input, std::uint64_t first, std::uint64_t size)
      : input_(std::move(input)), first_(first), size_(size) {}

  std::optional<std::uint64_t> size() const override { return size_; }
  void fetch(std::span<const std::uint64_t> positions, std::span<ElementRef> out) override {
    if (first_ == 0) return input_->fetch(positions, out);
    std::array<std::uint64_t, kBlock> mapped;
    for (std::size_t done = 0; done < positions.size(); done += kBlock) {
      const std::size_t count = std::min(kBlock, positions.size() - done);
      for (std::size_t i = 0; i < count; ++i) mapped[i] = first_ + positions[done + i];
      input_->fetch({mapped.data(), count}, out.subspan(done, count));
    }
  }

 private:
  OrderIteratorPtr input_;
  std::uint64_t first_, size_;
};

class TakeIterator final : public OrderIterator {
 public:
  TakeIterator(OrderIteratorPtr input, std::uint64_t count)
      : input_(std::move(input)), left_(count) {}

  std::size_t pull(std::span<ElementRef> out) override {
    if (left_ == 0) return 0;
    const std::size_t pulled = input_->pull(out.first(std::min<std::uint64_t>(out.size(), left_)));
    if (pulled == 0) left_ = 0;
    for (std::size_t i = 0; i < pulled; ++i) left_ -= is_error(out[i]) ? 0 : 1;
    return pulled;
  }
  void save(StateWriter& state) const override {
    state.put(left_);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    left_ = state.get();
    input_->restore(state);
  }

 private:
  OrderIteratorPtr input_;
  std::uint64_t left_;
};

class SkipIterator final : public OrderIterator {
 public:
  SkipIterator(OrderIteratorPtr input, std::uint64_t count)
      : input_(std::move(input)), left_(count) {}

  std::size_t pull(std::span<ElementRef> out) override {
    for (;;) {
      const std::size_t pulled = input_->pull(out);
      if (pulled == 0 || left_ == 0) return pulled;
      const std::size_t kept = keep_items(out.first(pulled), [this](const ElementRef& item) {
        if (left_ == 0 || is_error(item)) return true;
        --left_;
        return false;
      });
      if (kept > 0) return kept;
    }
  }
  void save(StateWriter& state) const override {
    state.put(left_);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    left_ = state.get();
    input_->restore(state);
  }

 private:
  OrderIteratorPtr input_;
  std::uint64_t left_;
};

/// The common part of take and skip: they open their input in the same way.
class CountNode : public Node {
 public:
  CountNode(const NodePtr& source, std::int64_t count, std::int64_t cardinality)
      : Node({source}, source->spec(), cardinality), count_(count) {}
  void describe(Description& description) const final { description.add("count", count_); }
  std::optional<BatchRows> find_batch_rows() const override { return input().batch_rows(); }
  Pending find_pending() const override {
    return input().pending() == Pending::fallible ? Pending::none : input().pending();
  }
  std::optional<std::uint64_t> find_indexed_size() const override {
    if (!input().indexed_size() || input().pending() != Pending::infallible) return std::nullopt;
    return static_cast<std::uint64_t>(cardinality());
  }

 protected:
  OrderIteratorPtr open_input(const OpenContext& context) const {
    OrderIteratorPtr source = input().open(context);
    if (input().pending() != Pending::fallible) return source;
    return context.run.values(*this, std::move(source), context);
  }

  std::int64_t count_;
};

class TakeNode final : public CountNode {
 public:
  TakeNode(const NodePtr& source, std::int64_t count)
      : CountNode(source, count, taken(source->cardinality(), count)) {}

  std::string name() const override { return "take"; }
  std::optional<std::int64_t> cardinality_of(std::span<const std::int64_t> inputs) const override {
    return taken(inputs[0], count_);
  }
  OrderIteratorPtr open(const OpenContext& context) const override {
    if (count_ < 0) return open_input(context);
    OrderIteratorPtr source = open_input(context);
    const auto count = static_cast<std::uint64_t>(count_);
    if (const auto size = source->size()) {
      return std::make_unique<SliceIterator>(std::move(source), 0, std::min(*size, count));
    }
    return std::make_unique<TakeIterator>(std::move(source), count);
  }

 private:
  static std::int64_t taken(std::int64_t size, std::int64_t count) {
    return count == 0 ? 0 : count < 0 ? size : min_cardinality(size, count);
  }
};

class SkipNode final : public CountNode {
 public:
  SkipNode(const NodePtr& source, std::int64_t count)
      : CountNode(source, count, left(source->cardinality(), count)) {}

  std::string name() const override { return "skip"; }
  std::optional<std::int64_t> cardinality_of(std::span<const std::int64_t> inputs) const override {
    return left(inputs[0], count_);
  }
  OrderIteratorPtr open(const OpenContext& context) const override {
    OrderIteratorPtr source = open_input(context);
    const auto count = count_ < 0 ? UINT64_MAX : static_cast<std::uint64_t>(count_);
    if (const auto size = source->size()) {
      const std::uint64_t skipped = std::min(*size, count);
      return std::make_unique<SliceIterator>(std::move(source), skipped, *size - skipped);
    }
    if (count_ < 0) return std::make_unique<TakeIterator>(std::move(source), 0);
    return std::make_unique<SkipIterator>(std::move(source), count);
  }

 private:
  static std::int64_t left(std::int64_t size, std::int64_t count) {
    return count < 0 ? 0 : size < 0 ? size : std::max<std::int64_t>(0, size - count);
  }
};

class SliceNode final : public Node {
 public:
  SliceNode(NodePtr source, std::uint64_t first, std::uint64_t size)
      : Node({source}, source->spec(), static_cast<std::int64_t>(size)),
        first_(first),
        size_(size) {}

  std::string name() const override { return "slice"; }
  void describe(Description& description) const override {
    description.add("first", first_);
    description.add("size", size_);
  }
  std::optional<std::uint64_t> find_indexed_size() const override { return size_; }
  OrderIteratorPtr open(const OpenContext& context) const override {
    return std::make_unique<SliceIterator>(input().open(context), first_, size_);
  }

 private:
  std::uint64_t first_, size_;
};

}  // namespace

NodePtr make_slice(NodePtr input, std::uint64_t first, std::uint64_t size) {
  return std::make_shared<SliceNode>(std::move(input), first, size);
}

NodePtr make_take(NodePtr input, std::int64_t count) {
  return std::make_shared<TakeNode>(std::move(input), count < 0 ? -1 : count);
}

NodePtr make_skip(NodePtr input, std::int64_t count) {
  return std::make_shared<SkipNode>(std::move(input), count < 0 ? -1 : count);
}

}  // namespace penstock
