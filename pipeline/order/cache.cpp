#include "pipeline/order/cache.h"

#include <algorithm>
#include <array>

#include <penstock/log.h>

#include "pipeline/order/support.h"

namespace penstock {
namespace {

/// What keeping it takes of the budget, about: buffers of the pool have at least 1 KiB and are up
/// to an eighth too large, and a view of a larger one is counted as a part of it.
std::uint64_t held_bytes(const Element& element) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < element.size(); ++i) {
    const Tensor& tensor = element[i];
    if (!tensor.owner()) continue;
    std::uint64_t bytes = tensor.nbytes();
    for (std::int64_t k = 0; tensor.dtype() == DType::bytes && k < tensor.volume(); ++k) {
      bytes += tensor.contiguous() ? tensor.bytes_at(k).size() : 0;
    }
    total += std::min<std::uint64_t>(tensor.owner()->size(),
                                     std::max<std::uint64_t>(1024, bytes + bytes / 8));
  }
  return total;
}

class CacheIterator final : public OrderIterator {
 public:
  CacheIterator(OrderIteratorPtr input, std::shared_ptr<CacheStore> store,
                const OpenContext& context, std::int64_t expected, std::string stage)
      : input_(std::move(input)),
        store_(std::move(store)),
        path_(context.path),
        again_(context.path != context.place),
        expected_(expected),
        run_(context.run),
        stage_(std::move(stage)) {}

  ~CacheIterator() override {
    if (!input_ || finished_ || filling_.empty()) return;
    log_once(LogLevel::warning, "cache.partial",
             "cache: the input was not read to its end, so nothing was kept; if only a part is "
             "wanted, use take(k).cache().repeat()");
  }

  std::size_t pull(std::span<Item> out) override {
    if (!input_) return replay(out);
    const std::size_t count = input_->pull(out);
    for (std::size_t i = 0; i < count; ++i) {
      if (is_error(out[i])) continue;
      filling_.emplace_back(out[i].ordinal, out[i].parcel);
      held_ += held_bytes(out[i].parcel->element);
      out[i].ordinal = ordinal_of(out[i].ordinal);
    }
    check_budget();
    position_ += count;
    const bool known_end = expected_ > 0 && filling_.size() == static_cast<std::size_t>(expected_);
    if ((count == 0 || known_end) && !finished_) finish();
    return count;
  }

  // The elements themselves are never saved: a restored run fills its cache again.
  void save(StateWriter& state) const override {
    state.put(input_ ? 0 : 1);
    state.put(position_);
  }
  void restore(StateReader& state) override {
    const bool replaying = state.get() != 0;
    const std::uint64_t position = state.get();
    if (!replaying) return discard(position);
    std::array<Item, kBlock> pulled;
    while (input_ && pull(pulled) > 0) {
    }
    input_.reset();
    position_ = std::min<std::size_t>(position, store_->elements.size());
  }

 private:
  // Something must be left to make elements in, or each of the others would wait in vain for room.
  void check_budget() {
    const std::uint64_t most = run_.memory_limit() / 4 * 3;
    if (held_ <= most) return;
    finished_ = true;
    const Error error(ErrorCode::resource_exhausted,
                      "the elements kept take " + std::to_string(held_) +
                          " bytes so far, and three quarters of the memory budget are " +
                          std::to_string(most) + "; give it more, or keep them in a file",
                      Provenance{{}, -1, -1, stage_});
    filling_.clear();
    run_.give_up(error);
    throw error;
  }

  void finish() {
    finished_ = true;
    const std::lock_guard lock(store_->mutex);
    if (store_->complete) return;
    store_->elements = filling_;
    store_->complete = true;
  }

  /// Each repetition has random numbers of its own.
  std::uint64_t ordinal_of(std::uint64_t kept) const noexcept {
    return again_ ? mix_path(path_, kept) : kept;
  }

  std::size_t replay(std::span<Item> out) {
    const std::size_t count =
        std::min<std::size_t>(out.size(), store_->elements.size() - position_);
    for (std::size_t i = 0; i < count; ++i) {
      const auto& [ordinal, parcel] = store_->elements[position_ + i];
      out[i] = item_of(parcel, ordinal_of(ordinal));
    }
    position_ += count;
    return count;
  }

  OrderIteratorPtr input_;  // null: replaying
  std::shared_ptr<CacheStore> store_;
  std::uint64_t path_;
  bool again_;  // not the first repetition
  std::int64_t expected_;
  std::vector<std::pair<std::uint64_t, Ref<Parcel>>> filling_;
  std::size_t position_ = 0;
  bool finished_ = false;
  RunServices& run_;
  std::string stage_;
  std::uint64_t held_ = 0;  // bytes of filling_
};

class CacheNode final : public Node {
 public:
  explicit CacheNode(NodePtr source) : Node({source}, source->spec(), source->cardinality()) {}
  std::string name() const override { return "cache"; }
  void describe(Description&) const override {}
  Resume resume() const override { return Resume::work; }
  Pending pending() const override { return Pending::none; }
  std::string advice() const override {
    for (const Node* node = &input(); !node->inputs().empty(); node = node->inputs()[0].get()) {
      if (node->random()) {
        return "cache keeps what " + node->name() +
               " drew in the first epoch; put random stages behind the cache";
      }
    }
    return {};
  }

  OrderIteratorPtr open(const OpenContext& context) const override {
    std::shared_ptr<CacheStore> store = context.run.cache(*this, context);
    const std::string stage = context.run.stage_name(*this);
    {
      const std::lock_guard lock(store->mutex);
      if (store->complete) {
        return std::make_unique<CacheIterator>(nullptr, store, context, cardinality(), stage);
      }
    }
    const OpenContext first = context.first();
    OrderIteratorPtr source = input().open(first);
    if (input().pending() != Pending::none) {
      source = context.run.values(*this, std::move(source), first);
    }
    return std::make_unique<CacheIterator>(std::move(source), std::move(store), context,
                                           cardinality(), stage);
  }
};

}  // namespace

NodePtr make_cache(NodePtr input) {
  return std::make_shared<CacheNode>(std::move(input));
}

}  // namespace penstock
