// The contract of a stage: a node of the graph, and the iterator that runs it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <penstock/dataset.h>
#include <penstock/description.h>
#include <penstock/plan.h>
#include <penstock/rng.h>
#include <penstock/state.h>

#include "pipeline/order/element_ref.h"

namespace penstock {

class Segment;

/// One pass over a stage's output, as items. Used by one thread at a time.
class OrderIterator {
 public:
  virtual ~OrderIterator() = default;

  /// Fills the front of `out` and returns how many; 0 only at the end, and then always. May return
  /// fewer than there is room for. Throws Error{cancelled} where the thread is to stop, and is not
  /// called again then. REQUIRES: !out.empty().
  virtual std::size_t pull(std::span<ElementRef> out) = 0;

  /// Number of items if any can be fetched by position; else nothing.
  virtual std::optional<std::uint64_t> size() const { return std::nullopt; }
  /// The items at these positions. REQUIRES: size(), positions below it, equal lengths. Independent
  /// of `pull`.
  virtual void fetch(std::span<const std::uint64_t> positions, std::span<ElementRef> out);

  /// The program of all items, if they have the same: a map puts its op there rather than into
  /// each item that passes. Else null.
  virtual ProgramPtr* common_program() noexcept { return nullptr; }

  /// This, if a thread of its own makes its items ahead; else null.
  virtual Segment* segment() noexcept { return nullptr; }

  /// Passes over `count` items. Throws Error{data_loss} if there are not as many.
  virtual void discard(std::uint64_t count);

  /// The position, and back to it. `restore` is called on a fresh iterator of the same stage.
  virtual void save(StateWriter& state) const = 0;
  virtual void restore(StateReader& state) = 0;
};

using OrderIteratorPtr = std::unique_ptr<OrderIterator>;

/// An iterator behind whose items stands a thread of its own, which makes them ahead.
class Segment : public OrderIterator {
 public:
  Segment* segment() noexcept final { return this; }
  /// Begins to make items. Called by the first pull, too.
  virtual void start() = 0;
  /// Calls back, on the thread that makes items or on this one, once its input has ended.
  virtual void on_exhausted(std::function<void()> callback) = 0;
  /// True if the engine itself failed: what was pulled last said why, and nothing follows.
  virtual bool broken() const = 0;
};

using SegmentPtr = std::unique_ptr<Segment>;

/// An iterator whose items can be fetched by position: implement `size` and `fetch`.
class IndexedIterator : public OrderIterator {
 public:
  std::size_t pull(std::span<ElementRef> out) final;
  void discard(std::uint64_t count) final { position_ += count; }
  void save(StateWriter& state) const final { state.put(position_); }
  void restore(StateReader& state) final { position_ = state.get(); }

 private:
  std::uint64_t position_ = 0;
};

class RunServices;
struct NestedCaches;

/// Where in the graph a stage is opened.
struct StagePlace {
  std::uint64_t path = 0;  ///< branches and parents so far, mixed; 0 at the top
  // Stages that repeat or branch so far. The first pass and the first input keep the path: of two
  // such stages in a row the second pass, or input, must not be taken for the other's.
  std::uint32_t repeats = 0;
  std::uint32_t branches = 0;
};

/// Where in the run a stage is opened.
struct OpenContext {
  RunServices& run;
  std::uint64_t epoch = 0;
  std::uint64_t path = 0;  ///< that of the place, with repetitions
  StagePlace place{};
  bool nested = false;  ///< inside interleave or flat_map: no threads of its own
  /// False where work is redone to get back to where a run had been, which has counted what failed.
  bool counted = true;
  bool first_counted = true;  ///< the same for what caches draw, as in the first epoch
  /// What the caches of a nested dataset keep; null at the top, where the run keeps it.
  std::shared_ptr<NestedCaches> caches{};

  OpenContext with_path(std::uint64_t index) const {
    OpenContext result = *this;
    result.path = mix_path(path, index);
    result.place.path = mix_path(place.path, index);
    return result;
  }
  OpenContext repetition(std::uint64_t pass) const {
    OpenContext result = *this;
    if (pass > 0) result.path = mix_path(path, kPass + (std::uint64_t{place.repeats} << 32) + pass);
    ++result.place.repeats;
    return result;
  }
  /// As in the first epoch and repetition of a place: what a cache keeps is drawn there.
  OpenContext first(const StagePlace& as) const {
    OpenContext result = *this;
    result.epoch = 0;
    result.path = as.path;
    result.place.repeats = as.repeats;
    result.place.branches = as.branches;
    result.counted = counted && first_counted;
    return result;
  }
  OpenContext redone() const {
    OpenContext result = *this;
    result.counted = false;
    return result;
  }
  /// The i-th of several inputs; the first keeps the path.
  OpenContext branch(std::size_t i) const {
    OpenContext result =
        i == 0 ? *this : with_path(kBranch + (std::uint64_t{place.branches} << 32) + i);
    ++result.place.branches;
    return result;
  }

 private:
  // So that neither is like the other, nor like the index of a parent.
  static constexpr std::uint64_t kPass = 0x7061737300000000ULL;
  static constexpr std::uint64_t kBranch = 0x6272616e63680000ULL;
};

/// What a stage's items are: references that can't fail, references that may, or values.
enum class Pending { none, infallible, fallible };

/// How the elements of a stage come from those of its input.
enum class Relation {
  other,  ///< in a way that depends on several of them, or on their order
  some,   ///< some of them, each kept or dropped for itself
  each,   ///< one for each, in the same order, made of it alone
  same,   ///< the same
};

/// One shard of how many.
struct WhichShard {
  std::uint64_t count = 1;
  std::uint64_t index = 0;
  bool contiguous = false;
};

/// A stage. Immutable; shared by datasets.
class Node {
 public:
  virtual ~Node() = default;

  /// "shuffle": the word used in explain, errors, TOML and fingerprints.
  virtual std::string name() const = 0;
  virtual void describe(Description& description) const = 0;
  virtual OrderIteratorPtr open(const OpenContext& context) const = 0;
  /// What `open`'s items are. The default: what the first input's are.
  virtual Pending pending() const {
    return inputs_.empty() ? Pending::none : inputs_[0]->pending();
  }
  /// True if the stage draws random numbers; it then gets a number of its own to key them.
  virtual bool random() const { return false; }
  /// True if what comes out may depend on the seed: it draws, or a dataset that it makes may.
  virtual bool seeded() const { return random(); }
  virtual Relation relation() const { return Relation::other; }
  virtual Execution execution() const;
  /// True if the elements of an input are made in parallel in front of this stage, which looks at
  /// them or must know whether they fail: a segment ends there.
  virtual bool wants_values(std::size_t input) const;
  /// The batches that the stage makes, if it does; `slot_bytes` is left to the plan.
  virtual std::optional<BatchInfo> batches() const { return std::nullopt; }
  /// The same batches of other elements, with their remainder; null if the stage can't say.
  virtual NodePtr batched_over(NodePtr /*elements*/) const { return nullptr; }
  /// True if it fills batches up with rows that are no samples.
  virtual bool pads() const { return false; }
  /// What the stage keeps of its input, if it is a shard.
  virtual std::optional<WhichShard> shard() const { return std::nullopt; }
  /// The source that the stage reads, if it is one.
  virtual SourcePtr source() const { return nullptr; }
  /// The cardinality that it would have if those of its inputs were these; nothing if that can't be
  /// told.
  virtual std::optional<std::int64_t> cardinality_of(
      std::span<const std::int64_t> /*inputs*/) const {
    return std::nullopt;
  }
  /// Batches to prepare ahead of this stage's output, if it asks; else -1.
  virtual std::int64_t prefetch_depth() const { return -1; }
  /// What restoring costs this stage, its inputs aside.
  virtual Resume resume() const { return Resume::position; }
  /// False if it calls a user's code, whose results nobody can vouch for.
  virtual bool deterministic() const { return true; }
  /// False if it gives its elements in an order that is not a function of the graph.
  virtual bool ordered() const { return true; }
  /// What was set while runs were under way, and decides what they give from this epoch on; and how
  /// far they have come with it, which may be further than a consumer has.
  virtual void save_record(std::uint64_t /*epoch*/, StateWriter& /*record*/,
                           StateWriter& /*reached*/) const {}
  virtual void restore_record(StateReader& /*record*/, StateReader& /*reached*/) const {}
  /// A sentence for `explain` if the graph is likely not what the user wants; else empty.
  virtual std::string advice() const { return {}; }

  const std::vector<NodePtr>& inputs() const noexcept { return inputs_; }
  const Spec& spec() const noexcept { return spec_; }
  std::int64_t cardinality() const noexcept { return cardinality_; }
  /// The number of records if they can be fetched by position. Known without opening.
  virtual std::optional<std::uint64_t> indexed_size() const { return std::nullopt; }

 protected:
  Node(std::vector<NodePtr> inputs, Spec spec, std::int64_t cardinality)
      : inputs_(std::move(inputs)), spec_(std::move(spec)), cardinality_(cardinality) {}

  const Node& input(std::size_t i = 0) const noexcept { return *inputs_[i]; }

 private:
  std::vector<NodePtr> inputs_;
  Spec spec_;
  std::int64_t cardinality_;
};

/// What a cache holds for a run: complete, or nothing yet.
struct CacheStore;

/// What the engine does for stages. Thread-safe.
class RunServices {
 public:
  virtual ~RunServices() = default;

  /// Values in the same order, made in parallel on the arena (in place if the context is nested).
  /// Items that fail become errors in their place; those that a predicate dropped are gone.
  virtual OrderIteratorPtr values(const Node& owner, OrderIteratorPtr input,
                                  const OpenContext& context, bool ordered = true) = 0;
  /// Batches as `node.batches()` says, written in place into recycled slots.
  virtual OrderIteratorPtr batches(const Node& node, OrderIteratorPtr input,
                                   const OpenContext& context, bool drop_remainder) = 0;

  /// True if elements that fail are passed over.
  virtual bool skips() const noexcept = 0;
  /// The item as a value, or as the error in its place, made on this thread.
  virtual ElementRef made(const ElementRef& item, const OpenContext& context) = 0;

  virtual std::uint64_t seed() const noexcept = 0;
  /// The number that keys a random stage's draws. Stages that draw nothing have none, so that
  /// adding them changes nobody's.
  virtual std::uint32_t rng_op(const Node& node) = 0;
  virtual StageCounters* counters(const Node& node) = 0;
  /// "map[2] decode".
  virtual std::string stage_name(const Node& node) = 0;
  /// The run's program of this node behind `parent`, which lives as long as the run: `candidate`,
  /// or the one made before.
  virtual const Program* intern(const Node& node, const Program* parent,
                                std::unique_ptr<Program> candidate) = 0;
  /// Of the graph that ends in `node`, with the data that it reads.
  virtual std::uint64_t fingerprint(const Node& node) const = 0;
  virtual std::shared_ptr<CacheStore> cache(const Node& node, const OpenContext& context) = 0;
  /// True if the thread that asks is to come to its end: the run was cancelled, or what it pulls
  /// for is taken down.
  virtual bool stopping() const noexcept = 0;
  /// Throws Error{cancelled} then, which every `pull` lets pass. For what may go on without end or
  /// wait within a pull: an end or an error in its place would be taken for one of the data.
  void check_stop() const;
  /// Counts an error that a stage left out.
  virtual void left_out(const Error& error) = 0;
  /// Says that `error`, which the stage puts in its place, is not one element's: it comes out under
  /// `skip` too, and ends the run there.
  virtual void give_up(const Error& error) = 0;
  /// Bytes of the budget.
  virtual std::uint64_t memory_limit() const noexcept = 0;
  /// Where streams read their records to. Waits for room in the budget.
  virtual ReadContext& stream_memory() = 0;
};

/// The key of an order stage's random numbers.
inline Rng order_rng(const Node& node, const OpenContext& context, std::uint64_t seed,
                     std::uint64_t draw) {
  return {epoch_key(seed, context.epoch), mix_path(context.path, draw), context.run.rng_op(node)};
}

/// What it costs to replay this input: nothing is read again where it gives references to an index.
Resume replay_of(const Node& input) noexcept;

/// Cardinality arithmetic with infinite and unknown.
std::int64_t add_cardinality(std::int64_t a, std::int64_t b) noexcept;
std::int64_t min_cardinality(std::int64_t a, std::int64_t b) noexcept;

/// Throws Error{invalid_argument} "<stage>: <message>".
[[noreturn]] void bad_stage(std::string_view stage, std::string message);

/// Items, or positions, that go through stages at a time, at most.
inline constexpr std::size_t kBlock = 256;

}  // namespace penstock
