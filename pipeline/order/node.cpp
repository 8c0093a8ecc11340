#include "pipeline/order/node.h"

#include <algorithm>
#include <array>
#include <mutex>

namespace penstock {

void RunServices::check_stop() const {
  if (stopping()) throw Error(ErrorCode::cancelled, "the run was cancelled");
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

void OrderIterator::fetch(std::span<const std::uint64_t>, std::span<ElementRef>) {
  throw Error(ErrorCode::internal, "fetch from an iterator without positions");
}

void OrderIterator::discard(std::uint64_t count) {
  std::array<ElementRef, kBlock> dropped;
  while (count > 0) {
    const std::size_t pulled = pull({dropped.data(), std::min<std::uint64_t>(count, kBlock)});
    if (pulled == 0) throw Error(ErrorCode::data_loss, "the state is behind the end of the input");
    count -= pulled;
  }
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

Resume replay_of(const Node& input) noexcept {
  if (input.resume() == Resume::work || input.pending() == Pending::none) return Resume::work;
  for (const NodePtr& deeper : input.inputs()) {
    if (replay_of(*deeper) == Resume::work) return Resume::work;
  }
  return Resume::order;
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

/// Payloads that are not in use. Never destroyed, so that elements may outlive everything else.
class PayloadPool {
 public:
  static PayloadPool& instance() {
    static PayloadPool* pool = new PayloadPool;  // leaked on purpose
    return *pool;
  }

  Payload* take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        Payload* payload = free_.back();
        free_.pop_back();
        return payload;
      }
    }
    return new Payload;
  }

  void give(Payload* payload) noexcept {
    payload->element.clear();
    payload->element.valid_rows = -1;
    payload->status = Status();
    payload->keep = true;
    payload->origin = {};
    payload->shard.reset();
    payload->children.clear();
    const std::lock_guard lock(mutex_);
    if (free_.size() < kKept) {
      free_.push_back(payload);
    } else {
      delete payload;
    }
  }

 private:
  static constexpr std::size_t kKept = 16384;
  PayloadPool() { free_.reserve(kKept); }

  std::mutex mutex_;
  std::vector<Payload*> free_;
};

Ref<Payload> Payload::make() {
  return Ref<Payload>(PayloadPool::instance().take());
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
  if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) PayloadPool::instance().give(this);
}

}  // namespace penstock
