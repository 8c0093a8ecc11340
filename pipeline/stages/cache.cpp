#include "pipeline/stages/cache.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <penstock/log.h>

#include "pipeline/stage/support.h"
#include "pipeline/stages/values.h"

namespace penstock {
namespace {

class CacheIterator final : public OrderIterator {
 public:
  CacheIterator(const Node& node, const OpenContext& context)
      : node_(node),
        context_(context),
        store_(context.run.cache(node, context)),
        again_(context.path != store_->place.path),
        filling_(std::make_shared<KeptElements>(context.run.stream_memory())) {
    if (!again_ && context.epoch == 0) {
      undecided_ = leave_undecided();
    } else {
      kept_ = decided(context.place.path == store_->place.path);
    }
    if (!kept_ && !undecided_) open_input();
  }

  ~CacheIterator() override {
    if (!filling_ || filling_->size() == 0) return;
    log_once(LogLevel::warning, "cache.partial",
             "cache: the input was not read to its end, so nothing was kept; if only a part is "
             "wanted, use take(k).cache().repeat()");
  }

  std::size_t pull(std::span<ElementRef> out) override {
    if (undecided_) begin_first();
    if (kept_) return replay(out);
    if (full_) refuse();
    std::size_t count = input_->pull(out);
    for (std::size_t i = 0; i < count; ++i) {
      // An element that lacked memory would be missing in every later pass.
      if (run_error(out[i]) != nullptr) filling_.reset();
      if (is_error(out[i])) continue;
      if (filling_ && !keep(out[i])) {
        if (i == 0) refuse();
        count = i;  // those in front still belong to the run, however many were pulled at once
        break;
      }
      out[i].ordinal = ordinal_of(out[i].ordinal);
    }
    position_ += count;
    const std::int64_t expected = node_.cardinality();
    const bool known_end =
        filling_ && expected > 0 && filling_->size() == static_cast<std::size_t>(expected);
    if (filling_ && (count == 0 || known_end)) finish();
    return count;
  }

  // The elements themselves are never saved: a restored run fills its cache again.
  void save(StateWriter& state) const override {
    state.put(kept_ ? 1 : 0);
    state.put(position_);
  }
  void restore(StateReader& state) override {
    if (undecided_) begin_first();
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
    if (!kept_) fill_again();
    input_.reset();
    kept_ = kept();
    if (!kept_) throw Error(ErrorCode::internal, "a cache was not filled to the end of its input");
    position_ = std::min<std::size_t>(position, kept_->size());
    place_ = kept_->find(position_);
  }

 private:
  std::shared_ptr<const KeptElements> kept() const {
    const MutexLock lock(store_->mutex);
    return store_->elements;
  }

  void drop() {
    kept_.reset();
    std::shared_ptr<const KeptElements> dropped;
    const MutexLock lock(store_->mutex);
    dropped.swap(store_->elements);
  }

  /// The first pass comes again only if the run goes back. If this pass is pulled or restored, the
  /// cache was empty there. But `repeat` also opens it on the way to a later pass, where the cache
  /// is full. Returns true if only that will tell.
  bool leave_undecided() {
    {
      const MutexLock lock(store_->mutex);
      store_->undecided = store_->elements && store_->filled_by_first;
      if (store_->undecided) return true;
    }
    drop();
    return false;
  }

  void begin_first() {
    undecided_ = false;
    (void)decided(false);
    open_input();
  }

  /// Returns the elements, unless the first pass has begun again.
  std::shared_ptr<const KeptElements> decided(bool later_pass) {
    {
      const MutexLock lock(store_->mutex);
      if (!std::exchange(store_->undecided, false) || later_pass) return store_->elements;
    }
    drop();
    return nullptr;
  }

  /// What was counted when the cache was filled is counted elsewhere: by an earlier epoch, or by
  /// the stage that closed the pass.
  void fill_again() {
    input_.reset();
    input_ = open_values(node_, context_.first(store_->place).redone());
    discard_at_most(UINT64_MAX);
  }

  void open_input() { input_ = open_values(node_, context_.first(store_->place)); }

  /// Returns false, with the reason in `full_`, if there is no room.
  bool keep(const ElementRef& item) {
    try {
      filling_->add(item.ordinal, *item.payload);
      if (filling_->bytes() <= context_.run.most_kept()) return true;
      full_ = no_room(true);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::resource_exhausted) throw;
      full_ = no_room(false);
    }
    return false;
  }

  Error no_room(bool too_much) const {
    return {ErrorCode::resource_exhausted,
            "the elements kept take " + std::to_string(filling_->bytes()) + " bytes so far, and " +
                why_not_kept(context_.run, too_much) + "; give it more, or keep them in a file",
            Provenance{{}, -1, -1, context_.run.stage_name(node_)}};
  }

  [[noreturn]] void refuse() {
    filling_.reset();
    context_.run.give_up(*full_);
    throw Error(*full_);
  }

  void finish() {
    const std::shared_ptr<const KeptElements> elements = std::move(filling_);
    const MutexLock lock(store_->mutex);
    if (store_->elements) return;
    store_->elements = elements;
    store_->filled_by_first = !again_;
  }

  /// Each repetition has its own random numbers.
  std::uint64_t ordinal_of(std::uint64_t kept) const noexcept {
    return again_ ? mix_path(context_.path, kept) : kept;
  }

  std::size_t replay(std::span<ElementRef> out) {
    const std::size_t count = std::min<std::size_t>(out.size(), kept_->size() - position_);
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = kept_->next(place_);
      out[i].ordinal = ordinal_of(out[i].ordinal);
    }
    position_ += count;
    return count;
  }

  const Node& node_;
  const OpenContext context_;
  const std::shared_ptr<CacheStore> store_;
  const bool again_;                          // not the first place and repetition
  bool undecided_ = false;                    // the elements may be those of a later position
  std::shared_ptr<const KeptElements> kept_;  // null: filling
  OrderIteratorPtr input_;                    // null: replaying
  std::shared_ptr<KeptElements> filling_;     // null: keeps nothing
  std::optional<Error> full_;                 // why it can keep no more
  std::size_t position_ = 0;
  KeptElements::Place place_;  // of the next element to be replayed
};

class CacheNode final : public Node {
 public:
  explicit CacheNode(NodePtr source) : Node({source}, source->spec(), source->cardinality()) {}
  std::string name() const override { return "cache"; }
  bool holds_values() const override { return true; }
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
        return "cache repeats what " + node->name() +
               " drew in the first epoch; put random stages after the cache";
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
