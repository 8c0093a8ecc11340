#include "pipeline/stages/shuffle.h"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "pipeline/stage/batch_rows.h"
#include "pipeline/stage/held_values.h"
#include "pipeline/stages/permutation.h"

namespace penstock {
namespace {

class PerfectShuffleIterator final : public IndexedIterator {
 public:
  PerfectShuffleIterator(OrderIteratorPtr input, Permutation permutation)
      : input_(std::move(input)), permutation_(std::move(permutation)) {}

  std::optional<std::uint64_t> size() const override { return input_->size(); }
  void fetch(std::span<const std::uint64_t> positions, std::span<ElementRef> out) override {
    std::array<std::uint64_t, kBlock> mapped;
    for (std::size_t done = 0; done < positions.size(); done += kBlock) {
      const std::size_t count = std::min(kBlock, positions.size() - done);
      for (std::size_t i = 0; i < count; ++i) mapped[i] = permutation_(positions[done + i]);
      input_->fetch({mapped.data(), count}, out.subspan(done, count));
    }
  }

 private:
  OrderIteratorPtr input_;
  Permutation permutation_;
};

class BufferedShuffleIterator final : public OrderIterator {
 public:
  BufferedShuffleIterator(OrderIteratorPtr input, std::uint64_t buffer, Rng rng, const Node& node,
                          const OpenContext& context)
      : input_(std::move(input)), capacity_(buffer), rng_(rng), values_(node, context) {}

  // Items in front of an error still belong to the run, however many are pulled at once.
  std::size_t pull(std::span<ElementRef> out) override {
    std::size_t count = 0;
    for (; count < out.size(); ++count) {
      if (!values_.full()) try_to_fill();
      if (values_.full() || error_) {
        if (count > 0) break;
        if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
        values_.refuse();
      }
      if (buffer_.empty()) break;
      const std::uint64_t drawn = rng_.below(buffer_.size());
      out[count] = std::move(buffer_[drawn]);
      payloads_ -= HeldValues::payloads_of(out[count]);
      buffer_[drawn] = std::move(buffer_.back());
      buffer_.pop_back();
    }
    emitted_ += count;
    return count;
  }

  // The buffer is never saved: the draws are replayed over a fresh input.
  void save(StateWriter& state) const override { state.put(emitted_); }
  void restore(StateReader& state) override { discard(state.get()); }

 private:
  void try_to_fill() {
    if (error_) return;
    try {
      fill();
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  void fill() {
    while (!ended_ && buffer_.size() < capacity_) {
      const std::size_t held = buffer_.size();
      const std::size_t room = std::min<std::uint64_t>(capacity_ - held, kBlock);
      buffer_.resize(held + room);
      const std::size_t count = input_->pull({buffer_.data() + held, room});
      ended_ = count == 0;
      buffer_.resize(held + count);
      for (std::size_t i = held; i < buffer_.size(); ++i) {
        payloads_ += HeldValues::payloads_of(buffer_[i]);
        if (!values_.charge(buffer_[i], payloads_)) return;
      }
    }
  }

  OrderIteratorPtr input_;
  std::uint64_t capacity_;
  Rng rng_;
  std::vector<ElementRef> buffer_;
  HeldValues values_;
  std::uint64_t payloads_ = 0;  // of what the buffer holds
  std::uint64_t emitted_ = 0;
  bool ended_ = false;
  std::exception_ptr error_;  // of the input, for the next pull
};

class ShuffleNode final : public Node {
 public:
  ShuffleNode(NodePtr source, ShuffleOptions options)
      : Node({source}, source->spec(), source->cardinality()), options_(options) {}

  std::string name() const override { return "shuffle"; }
  bool holds_values() const override { return true; }
  void describe(Description& description) const override {
    if (options_.buffer > 0) description.add("buffer", options_.buffer);
    if (options_.seed) description.add("seed", *options_.seed);
    description.add("reshuffle", options_.reshuffle);
  }
  bool random() const override { return true; }
  std::optional<BatchRows> find_batch_rows() const override { return rows_in_any_order(input()); }
  std::optional<std::int64_t> cardinality_of(std::span<const std::int64_t> inputs) const override {
    return inputs[0];
  }
  Resume find_resume() const override {
    if (options_.buffer == 0) return Resume::position;
    return input().replay();
  }
  std::optional<std::uint64_t> find_indexed_size() const override {
    return options_.buffer == 0 ? input().indexed_size() : std::nullopt;
  }

  OrderIteratorPtr open(const OpenContext& context) const override {
    const std::uint64_t seed = options_.seed.value_or(context.run.seed());
    const std::uint64_t key = epoch_key(seed, options_.reshuffle ? context.epoch : 0);
    const std::uint64_t path = options_.reshuffle ? context.path : 0;
    const std::uint32_t op = context.run.rng_op(*this);
    OrderIteratorPtr source = input().open(context);
    if (options_.buffer > 0) {
      return std::make_unique<BufferedShuffleIterator>(std::move(source), options_.buffer,
                                                       Rng(key, path, op), *this, context);
    }
    Permutation permutation(*source->size(), key, path, op);
    return std::make_unique<PerfectShuffleIterator>(std::move(source), std::move(permutation));
  }

 private:
  ShuffleOptions options_;
};

/// Returns the stage in front that batches elements with an index; null if there is none.
const Node* batches_of_an_index(const Node& input) {
  const Node* node = &input;
  while (!node->batches() &&
         (node->relation() == Relation::each || node->relation() == Relation::same)) {
    node = node->inputs()[0].get();
  }
  return node->batches() && node->inputs()[0]->indexed_size() ? node : nullptr;
}

std::string hyphenated(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

}  // namespace

NodePtr make_shuffle(NodePtr input, ShuffleOptions options) {
  if (options.buffer > INT64_MAX) {
    bad_stage("shuffle", "the buffer's size must not be negative, such as " +
                             std::to_string(static_cast<std::int64_t>(options.buffer)));
  }
  if (options.buffer == 0 && !input->indexed_size()) {
    const Node* const batches = batches_of_an_index(*input);
    bad_stage("shuffle",
              "a perfect shuffle needs an indexed input, but " + input->name() + " has no index; " +
                  (batches == nullptr
                       ? "give a buffer size"
                       : "to shuffle before batching, put shuffle before " + batches->name() +
                             " (--shuffle before --" + hyphenated(batches->name()) + ")"));
  }
  return std::make_shared<ShuffleNode>(std::move(input), options);
}

}  // namespace penstock
