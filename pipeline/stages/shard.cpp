#include "pipeline/stages/shard.h"

#include <algorithm>
#include <array>

#include "pipeline/stage/support.h"

namespace penstock {
namespace {

// A state begins with the input position from which shards are counted: 0, or the position where a
// run was resumed with another number of shards (see shard.h).

/// The positions first, first + step, … of an indexed input.
class IndexedShardIterator final : public OrderIterator {
 public:
  IndexedShardIterator(OrderIteratorPtr input, std::uint64_t first, std::uint64_t step,
                       std::uint64_t size)
      : input_(std::move(input)), first_(first), step_(step), size_(size) {}

  std::size_t pull(std::span<ElementRef> out) override {
    std::array<std::uint64_t, kBlock> positions;
    const std::uint64_t left = size_ - std::min(size_, position_);
    const std::size_t count = std::min<std::uint64_t>({out.size(), kBlock, left});
    for (std::size_t i = 0; i < count; ++i) positions[i] = position_ + i;
    if (count > 0) fetch({positions.data(), count}, out.first(count));
    position_ += count;
    return count;
  }
  void discard(std::uint64_t count) override { position_ = passed(position_, count, size_); }

  std::optional<std::uint64_t> size() const override { return size_; }
  void fetch(std::span<const std::uint64_t> positions, std::span<ElementRef> out) override {
    std::array<std::uint64_t, kBlock> mapped;
    for (std::size_t done = 0; done < positions.size(); done += kBlock) {
      const std::size_t count = std::min(kBlock, positions.size() - done);
      for (std::size_t i = 0; i < count; ++i) mapped[i] = first_ + step_ * positions[done + i];
      input_->fetch({mapped.data(), count}, out.subspan(done, count));
    }
  }

  void save(StateWriter& state) const override {
    state.put(base_);
    state.put(position_);
  }
  void restore(StateReader& state) override {
    base_ = state.get();
    position_ = state.get();
    if (base_ == 0) return;
    first_ += base_;
    const std::uint64_t end = *input_->size();
    size_ = first_ < end ? (end - first_ + step_ - 1) / step_ : 0;
  }

 private:
  OrderIteratorPtr input_;
  std::uint64_t first_, step_, size_;
  std::uint64_t base_ = 0;
  std::uint64_t position_ = 0;
};

class ShardIterator final : public OrderIterator {
 public:
  ShardIterator(OrderIteratorPtr input, std::uint64_t count, std::uint64_t index)
      : input_(std::move(input)), count_(count), index_(index) {}

  std::size_t pull(std::span<ElementRef> out) override {
    for (;;) {
      const std::size_t pulled = input_->pull(out);
      if (pulled == 0) return 0;
      const std::size_t kept = keep_items(out.first(pulled), [this](const ElementRef& item) {
        return run_error(item) != nullptr || (position_++ - base_) % count_ == index_;
      });
      if (kept > 0) return kept;
    }
  }

  void save(StateWriter& state) const override {
    state.put(base_);
    state.put(position_);
    state.put(1);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    base_ = state.get();
    position_ = state.get();
    if (state.get() != 0) return input_->restore(state);
    position_ = base_;
    input_->discard(base_);
  }

 private:
  OrderIteratorPtr input_;
  std::uint64_t count_, index_;
  std::uint64_t base_ = 0;
  std::uint64_t position_ = 0;
};

class ShardNode final : public Node {
 public:
  ShardNode(NodePtr source, WhichShard shard)
      : Node({source}, source->spec(), sharded(source->cardinality(), shard)), shard_(shard) {}

  std::string name() const override { return "shard"; }
  std::optional<BatchRows> find_batch_rows() const override { return input().batch_rows(); }
  void describe(Description& description) const override {
    description.add("count", shard_.count);
    description.add("index", shard_.index);
    description.add("contiguous", shard_.contiguous);
  }
  std::optional<WhichShard> shard() const override { return shard_; }
  std::optional<std::uint64_t> find_indexed_size() const override {
    if (!input().indexed_size()) return std::nullopt;
    return static_cast<std::uint64_t>(cardinality());
  }

  OrderIteratorPtr open(const OpenContext& context) const override {
    OrderIteratorPtr source = input().open(context);
    if (const auto size = source->size()) {
      const auto [count, index, contiguous] = shard_;
      const std::uint64_t first = contiguous ? index * *size / count : index;
      return std::make_unique<IndexedShardIterator>(std::move(source), first,
                                                    contiguous ? 1 : count,
                                                    static_cast<std::uint64_t>(cardinality()));
    }
    return std::make_unique<ShardIterator>(std::move(source), shard_.count, shard_.index);
  }

 private:
  static std::int64_t sharded(std::int64_t size, const WhichShard& shard) {
    if (size < 0) return size;
    const auto [count, index, contiguous] = shard;
    const auto n = static_cast<std::uint64_t>(size);
    if (contiguous) return static_cast<std::int64_t>((index + 1) * n / count - index * n / count);
    return static_cast<std::int64_t>(n / count + (index < n % count ? 1 : 0));
  }

  WhichShard shard_;
};

}  // namespace

std::string resharded_state(std::uint64_t base) {
  StateWriter state;
  state.put(base);
  state.put(0);  // of this shard's elements
  state.put(0);  // the input has no state
  return state.take();
}

NodePtr make_shard(NodePtr input, std::int64_t count, std::int64_t index, ShardOptions options) {
  if (count <= 0) bad_stage("shard", "count must be positive, not " + std::to_string(count));
  if (index < 0 || index >= count) {
    bad_stage("shard",
              "index must be in [0, " + std::to_string(count) + "), not " + std::to_string(index));
  }
  if (options.contiguous && !input->indexed_size()) {
    bad_stage("shard", "contiguous shards need an indexed input, so that their borders are known");
  }
  return std::make_shared<ShardNode>(
      std::move(input), WhichShard{static_cast<std::uint64_t>(count),
                                   static_cast<std::uint64_t>(index), options.contiguous});
}

}  // namespace penstock
