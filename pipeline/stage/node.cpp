#include "pipeline/stage/node.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <string>
#include <type_traits>

#include <penstock/limits.h>

#include "pipeline/stage/held_values.h"

namespace penstock {

void RunServices::check_stop() const {
  if (stopping()) throw Error(ErrorCode::cancelled, "the run was cancelled");
}

Node::Node(std::vector<NodePtr> inputs, Spec spec, std::int64_t cardinality)
    : inputs_(std::move(inputs)), spec_(std::move(spec)), cardinality_(cardinality) {
  for (const NodePtr& input : inputs_) depth_ = std::max(depth_, input->depth_ + 1);
  if (depth_ > kMostStages)
    throw Error(ErrorCode::invalid_argument,
                "a chain has more than " + std::to_string(kMostStages) + " stages (stages)");
}

Execution Node::execution() const {
  if (inputs_.empty()) return indexed_size() ? Execution::references : Execution::stream;
  if (indexed_size()) return Execution::positions;
  const bool makes = pending() == Pending::none && inputs_[0]->pending() != Pending::none;
  return makes ? Execution::values : Execution::order;
}

bool Node::wants_values(std::size_t input) const {
  switch (execution()) {
    case Execution::verdicts:
      return true;
    case Execution::values:
    case Execution::held:
    case Execution::gathered:
      return inputs_[input]->pending() != Pending::none;
    default:
      return false;
  }
}

std::optional<BatchRows> Node::find_batch_rows() const {
  const bool kept = relation() == Relation::same || relation() == Relation::some;
  return kept ? inputs_[0]->batch_rows() : std::nullopt;
}

std::optional<BatchRows> rows_through(const Node& input, const Spec& output) {
  std::optional<BatchRows> rows = input.batch_rows();
  if (!rows || input.spec() == output) return rows;
  const auto outermost = [](const Spec& spec) {
    std::optional<std::int64_t> common;
    for (const ComponentSpec& component : spec) {
      const Shape& shape = component.shape;
      const std::int64_t here = !shape.has_rank()   ? Shape::kUnknown
                                : shape.rank() == 0 ? -2
                                                    : shape[0];
      if (common && *common != here) return std::optional<std::int64_t>();
      common = here;
    }
    return common;
  };
  const std::optional<std::int64_t> was = rows->divisible ? outermost(input.spec()) : std::nullopt;
  const std::optional<std::int64_t> is = outermost(output);
  if (is && is == was) return rows;
  rows->padded = false;
  rows->divisible = rows->divisible && is && *is != -2;
  rows->fewer = is && *is >= 0 ? BatchRows::Fewer::none : BatchRows::Fewer::any;
  rows->full = rows->most = is ? std::max<std::int64_t>(*is, 0) : 0;
  return rows;
}

std::optional<BatchRows> rows_of_any(const std::vector<NodePtr>& inputs, std::size_t count) {
  std::optional<BatchRows> all = inputs[0]->batch_rows();
  for (std::size_t i = 1; i < count && all; ++i) {
    const std::optional<BatchRows> rows = inputs[i]->batch_rows();
    if (!rows || rows->padded != all->padded) return std::nullopt;
    if (rows->full != all->full) all->full = 0;
    all->most = all->most > 0 && rows->most > 0 ? std::max(all->most, rows->most) : 0;
    all->fewer = std::max(all->fewer, rows->fewer);
    all->divisible = all->divisible && rows->divisible;
    all->kept = all->kept || rows->kept;
  }
  if (all && all->full == 0) all->fewer = BatchRows::Fewer::any;
  if (all && all->fewer == BatchRows::Fewer::last) all->fewer = BatchRows::Fewer::any;
  return all;
}

std::optional<BatchRows> rows_in_any_order(const Node& input) {
  std::optional<BatchRows> rows = input.batch_rows();
  if (rows && rows->fewer == BatchRows::Fewer::last) rows->fewer = BatchRows::Fewer::any;
  return rows;
}

void OrderIterator::fetch(std::span<const std::uint64_t>, std::span<ElementRef>) {
  throw Error(ErrorCode::internal, "fetch from an iterator without positions");
}

namespace {

[[noreturn]] void behind_the_end() {
  throw Error(ErrorCode::data_loss, "the state is behind the end of the input");
}

}  // namespace

void OrderIterator::discard(std::uint64_t count) {
  if (discard_at_most(count) < count) behind_the_end();
}

std::uint64_t OrderIterator::discard_at_most(std::uint64_t count) {
  std::array<ElementRef, kBlock> dropped;
  std::uint64_t done = 0;
  // A block of values may take more memory than there is.
  for (std::size_t block = 1; done < count;) {
    const std::size_t pulled = pull({dropped.data(), std::min<std::uint64_t>(count - done, block)});
    if (pulled == 0) break;
    done += pulled;
    block = kBlock;
    for (std::size_t i = 0; i < pulled; ++i) {
      if (const Error* const error = run_error(dropped[i])) throw Error(*error);
      if (dropped[i].payload) block = 1;
      dropped[i] = ElementRef();
    }
  }
  return done;
}

std::uint64_t OrderIterator::passed(std::uint64_t position, std::uint64_t count,
                                    std::uint64_t size) {
  if (count > size - std::min(size, position)) behind_the_end();
  return position + count;
}

void IndexedIterator::discard(std::uint64_t count) {
  position_ = passed(position_, count, *size());
}

std::size_t IndexedIterator::pull(std::span<ElementRef> out) {
  std::array<std::uint64_t, kBlock> positions;
  const std::uint64_t end = *size();
  const std::size_t count =
      std::min<std::uint64_t>({out.size(), kBlock, end - std::min(end, position_)});
  for (std::size_t i = 0; i < count; ++i) positions[i] = position_ + i;
  if (count > 0) fetch({positions.data(), count}, out.first(count));
  position_ += count;
  return count;
}

Resume Node::find_replay() const {
  if (resume() == Resume::work || pending() == Pending::none) return Resume::work;
  const auto works = [](const NodePtr& input) { return input->replay() == Resume::work; };
  return std::ranges::any_of(inputs_, works) ? Resume::work : Resume::order;
}

std::int64_t add_cardinality(std::int64_t a, std::int64_t b) noexcept {
  if (a == kInfinite || b == kInfinite) return kInfinite;
  if (a == kUnknown || b == kUnknown) return kUnknown;
  return a + b;
}

std::int64_t min_cardinality(std::int64_t a, std::int64_t b) noexcept {
  if (a == kInfinite) return b;
  if (b == kInfinite) return a;
  if (a == kUnknown || b == kUnknown) return kUnknown;
  return std::min(a, b);
}

void bad_stage(std::string_view stage, std::string message) {
  throw Error(ErrorCode::invalid_argument, std::move(message),
              Provenance{.shard = {}, .offset = -1, .index = -1, .stage = std::string(stage)});
}

/// A pool of unused payloads. Never destroyed, so that elements may outlive all other objects. Each
/// thread has a few of them at hand, so that threads seldom wait for each other.
class PayloadPool {
 public:
  static Payload* take() {
    AtHand& mine = at_hand();
    if (mine.count == 0) instance().fill(mine);
    return mine.count > 0 ? mine.payloads[--mine.count] : new Payload;
  }

  static void give(Payload* payload) noexcept {
    payload->element.clear();
    payload->element.valid_rows = -1;
    payload->status = Status();
    payload->keep = true;
    payload->ends = false;
    payload->origin = {};
    payload->shard.reset();
    payload->children.clear();
    // A window or a padded batch may have had millions.
    if (payload->children.capacity() > kMostChildren) payload->children.shrink_to_fit();
    if (payload->charged_.load(std::memory_order_relaxed)) {
      if (PayloadCharges* const charge = std::exchange(payload->charge, nullptr)) charge->give();
      payload->charged_.store(false, std::memory_order_relaxed);
    }
    AtHand& mine = at_hand();
    mine.payloads[mine.count++] = payload;
    if (mine.count >= mine.most) instance().drain(mine);
  }

 private:
  static constexpr std::size_t kKept = 16384;
  static constexpr std::size_t kAtHand = 32;
  static constexpr std::size_t kMostChildren = 16;  // that an unused payload keeps room for

  struct AtHand {
    std::array<Payload*, kAtHand> payloads;
    std::size_t count;
    std::size_t most;
  };
  // Payloads may be released after this thread's other objects have gone.
  static_assert(std::is_trivially_destructible_v<AtHand>);

  PayloadPool() { free_.reserve(kKept); }

  static PayloadPool& instance() {
    static PayloadPool* pool = new PayloadPool;  // leaked on purpose
    return *pool;
  }

  static AtHand& at_hand() {
    struct Owner {
      AtHand& mine;
      ~Owner() {
        mine.most = 0;
        instance().drain(mine);
      }
    };
    static thread_local AtHand mine{{}, 0, kAtHand};
    static thread_local const Owner owner{mine};
    return mine;
  }

  void fill(AtHand& mine) {
    const std::lock_guard lock(mutex_);
    const std::size_t wanted = std::max<std::size_t>(1, mine.most / 2);
    for (; mine.count < wanted && !free_.empty(); free_.pop_back())
      mine.payloads[mine.count++] = free_.back();
  }

  void drain(AtHand& mine) noexcept {
    const std::size_t left = mine.most / 2;
    {
      const std::lock_guard lock(mutex_);
      while (mine.count > left && free_.size() < kKept)
        free_.push_back(mine.payloads[--mine.count]);
    }
    while (mine.count > left) delete mine.payloads[--mine.count];
  }

  std::mutex mutex_;
  std::vector<Payload*> free_;
};

Ref<Payload> Payload::make() {
  return Ref<Payload>(PayloadPool::take());
}

Ref<Payload> Payload::make(Element element) {
  Ref<Payload> payload = make();
  payload->element = std::move(element);
  return payload;
}

Ref<Payload> Payload::make(Status status) {
  Ref<Payload> payload = make();
  payload->status = std::move(status);
  return payload;
}

void Payload::release() noexcept {
  if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) PayloadPool::give(this);
}

}  // namespace penstock
