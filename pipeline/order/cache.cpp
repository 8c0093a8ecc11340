#include "pipeline/order/cache.h"

#include <algorithm>
#include <cstdint>

#include <penstock/log.h>

#include "pipeline/order/support.h"
#include "pipeline/order/values.h"

namespace penstock {
namespace {

/// Returns roughly how much of the budget it takes to keep the element. Buffers of the pool have at
/// least 256 bytes. A view of a larger buffer counts as a part of it. The result does not depend on
/// which buffer the element got.
std::uint64_t held_bytes(const Element& element) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < element.size(); ++i) {
    const Tensor& tensor = element[i];
    if (!tensor.owner()) continue;
    std::uint64_t bytes = tensor.nbytes();
    for (std::int64_t k = 0; tensor.dtype() == DType::bytes && k < tensor.volume(); ++k) {
      bytes += tensor.contiguous() ? tensor.bytes_at(k).size() : 0;
    }
    total += std::max<std::uint64_t>(256, std::min<std::uint64_t>(tensor.owner()->size(), bytes));
  }
  return total;
}

class CacheIterator final : public OrderIterator {
 public:
  CacheIterator(const Node& node, const OpenContext& context)
      : node_(node),
        context_(context),
        store_(context.run.cache(node, context)),
        again_(context.path != store_->place.path),
        most_(context.run.memory_limit() / 4 * 3) {
    // The first pass comes again only if the run goes back to where the cache was empty.
    if (!again_ && context.epoch == 0) drop();
    kept_ = kept();
    if (!kept_) open_input();
  }

  ~CacheIterator() override {
    if (filling_.empty()) return;
    log_once(LogLevel::warning, "cache.partial",
             "cache: the input was not read to its end, so nothing was kept; if only a part is "
             "wanted, use take(k).cache().repeat()");
  }

  std::size_t pull(std::span<ElementRef> out) override {
    if (kept_) return replay(out);
    if (held_ > most_) refuse();
    std::size_t count = input_->pull(out);
    for (std::size_t i = 0; i < count; ++i) {
      // An element that lacked memory would be missing in every later pass.
      if (run_error(out[i]) != nullptr) stop_keeping();
      if (is_error(out[i])) continue;
      if (keeps_) {
        held_ += held_bytes(out[i].payload->element);
        if (held_ > most_) {
          if (i == 0) refuse();
          count = i;  // those in front still belong to the run, however many were pulled at once
          break;
        }
        filling_.emplace_back(out[i].ordinal, out[i].payload);
      }
      out[i].ordinal = ordinal_of(out[i].ordinal);
    }
    position_ += count;
    const std::int64_t expected = node_.cardinality();
    const bool known_end = expected > 0 && filling_.size() == static_cast<std::size_t>(expected);
    if (keeps_ && (count == 0 || known_end)) finish();
    return count;
  }

  // The elements themselves are never saved: a restored run fills its cache again.
  void save(StateWriter& state) const override {
    state.put(kept_ ? 1 : 0);
    state.put(position_);
  }
  void restore(StateReader& state) override {
    const bool replaying = state.get() != 0;
    const std::uint64_t position = state.get();
    if (!replaying) {
      // The cache has been filled since then. What it took from the budget would leave less room
      // here than a run has that comes here for the first time. It holds no errors either.
      if (kept_) {
        drop();
        open_input();
      }
      return discard(position);
    }
    if (!kept_) discard_at_most(UINT64_MAX);
    input_.reset();
    kept_ = kept();
    if (!kept_) throw Error(ErrorCode::internal, "a cache was not filled to the end of its input");
    position_ = std::min<std::size_t>(position, kept_->size());
  }

 private:
  std::shared_ptr<const CacheStore::Elements> kept() const {
    const std::lock_guard lock(store_->mutex);
    return store_->elements;
  }

  void drop() {
    kept_.reset();
    std::shared_ptr<const CacheStore::Elements> dropped;
    const std::lock_guard lock(store_->mutex);
    dropped.swap(store_->elements);
  }

  void open_input() { input_ = open_values(node_, context_.first(store_->place)); }

  // Leave room to make elements in. Otherwise each of the others would wait for room in vain.
  [[noreturn]] void refuse() {
    const Error error(ErrorCode::resource_exhausted,
                      "the elements kept take " + std::to_string(held_) +
                          " bytes so far, and three quarters of the memory budget are " +
                          std::to_string(most_) + "; give it more, or keep them in a file",
                      Provenance{{}, -1, -1, context_.run.stage_name(node_)});
    stop_keeping();
    context_.run.give_up(error);
    throw error;
  }

  void stop_keeping() noexcept {
    keeps_ = false;
    filling_.clear();
  }

  void finish() {
    auto elements = std::make_shared<const CacheStore::Elements>(std::move(filling_));
    stop_keeping();
    const std::lock_guard lock(store_->mutex);
    if (!store_->elements) store_->elements = std::move(elements);
  }

  /// Each repetition has its own random numbers.
  std::uint64_t ordinal_of(std::uint64_t kept) const noexcept {
    return again_ ? mix_path(context_.path, kept) : kept;
  }

  std::size_t replay(std::span<ElementRef> out) {
    const std::size_t count = std::min<std::size_t>(out.size(), kept_->size() - position_);
    for (std::size_t i = 0; i < count; ++i) {
      const auto& [ordinal, payload] = (*kept_)[position_ + i];
      out[i] = ref_to(payload, ordinal_of(ordinal));
    }
    position_ += count;
    return count;
  }

  const Node& node_;
  const OpenContext context_;
  const std::shared_ptr<CacheStore> store_;
  const bool again_;                                  // not the first place and repetition
  const std::uint64_t most_;                          // bytes to keep
  std::shared_ptr<const CacheStore::Elements> kept_;  // null: filling
  OrderIteratorPtr input_;                            // null: replaying
  CacheStore::Elements filling_;
  std::size_t position_ = 0;
  bool keeps_ = true;       // adds to filling_
  std::uint64_t held_ = 0;  // bytes of what it kept
};

class CacheNode final : public Node {
 public:
  explicit CacheNode(NodePtr source) : Node({source}, source->spec(), source->cardinality()) {}
  std::string name() const override { return "cache"; }
  void describe(Description&) const override {}
  Resume find_resume() const override { return Resume::work; }
  Pending find_pending() const override { return Pending::none; }
  std::optional<BatchRows> find_batch_rows() const override {
    std::optional<BatchRows> rows = input().batch_rows();
    if (rows) rows->kept = true;
    return rows;
  }
  NodePtr over(NodePtr input) const override { return make_cache(std::move(input)); }
  std::optional<std::int64_t> cardinality_of(std::span<const std::int64_t> inputs) const override {
    return inputs[0];
  }
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
    return std::make_unique<CacheIterator>(*this, context);
  }
};

}  // namespace

NodePtr make_cache(NodePtr input) {
  return std::make_shared<CacheNode>(std::move(input));
}

}  // namespace penstock
