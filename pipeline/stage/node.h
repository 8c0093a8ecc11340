// The contract of a stage: a node of the graph, and the iterator that runs it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <penstock/dataset.h>
#include <penstock/description.h>
#include <penstock/plan.h>
#include <penstock/rng.h>
#include <penstock/state.h>

#include "pipeline/stage/element_ref.h"

namespace penstock {

class Segment;

/// One pass over a stage's output, as items. Used by one thread at a time.
class OrderIterator {
 public:
  virtual ~OrderIterator() = default;

  /// Fills the front of `out` and returns the number of items. May return fewer than there is room
  /// for. Returns 0 only at the end, and then always. Throws Error{cancelled} if the thread has to
  /// stop, and is not called again after that. REQUIRES: !out.empty().
  virtual std::size_t pull(std::span<ElementRef> out) = 0;

  /// Returns the number of items if each can be fetched by its position; otherwise nothing.
  virtual std::optional<std::uint64_t> size() const { return std::nullopt; }
  /// Fetches the items at these positions. Independent of `pull`. REQUIRES: size() has a value, all
  /// positions are below it, and the spans have equal lengths.
  virtual void fetch(std::span<const std::uint64_t> positions, std::span<ElementRef> out);

  /// Returns the program of all items if they share one, otherwise null. A map appends its op
  /// there, instead of to each item that passes.
  virtual ProgramPtr* common_program() noexcept { return nullptr; }

  /// Returns this iterator if it has a thread of its own that makes its items ahead; otherwise
  /// null.
  virtual Segment* segment() noexcept { return nullptr; }

  /// Skips `count` items. Throws Error{data_loss} if the input has fewer.
  virtual void discard(std::uint64_t count);

  /// Save the position, and return to it. `restore` is called on a fresh iterator of the same
  /// stage.
  virtual void save(StateWriter& state) const = 0;
  virtual void restore(StateReader& state) = 0;

 protected:
  /// Pulls up to `count` items, and returns how many there were. Throws their `run_error`.
  std::uint64_t discard_at_most(std::uint64_t count);
  /// Returns the position `count` items after `position`, for an input of `size` items. Throws as
  /// `discard` does.
  static std::uint64_t passed(std::uint64_t position, std::uint64_t count, std::uint64_t size);
};

using OrderIteratorPtr = std::unique_ptr<OrderIterator>;

/// An iterator with a thread of its own, which makes its items ahead.
class Segment : public OrderIterator {
 public:
  Segment* segment() noexcept final { return this; }
  /// Begins to make items. The first pull also calls it.
  virtual void start() = 0;
  /// Like `pull`, but returns nothing instead of waiting. REQUIRES: `start` has returned.
  virtual std::optional<std::size_t> try_pull(std::span<ElementRef> out) = 0;
  /// Waits until a new `try_pull` may have more to say than the last one, which returned nothing.
  virtual void wait() = 0;
  /// Sets a callback that is called once the input has ended, on the thread that makes items or on
  /// the calling one.
  virtual void on_exhausted(std::function<void()> callback) = 0;
  /// True if the engine itself failed. One pull throws the reason; later ones return nothing.
  virtual bool broken() const = 0;
};

using SegmentPtr = std::unique_ptr<Segment>;

/// An iterator whose items can be fetched by position. Subclasses implement `size` and `fetch`.
class IndexedIterator : public OrderIterator {
 public:
  std::size_t pull(std::span<ElementRef> out) final;
  void discard(std::uint64_t count) final;
  void save(StateWriter& state) const final { state.put(position_); }
  void restore(StateReader& state) final { position_ = state.get(); }

 private:
  std::uint64_t position_ = 0;
};

class RunServices;
struct NestedCaches;

/// A stage's place in the graph, where it is opened.
struct StagePlace {
  std::uint64_t path = 0;  ///< branches and parents up to here, mixed; 0 at the top
  // The numbers of repeating and of branching stages up to here. The first pass and the first input
  // keep the path. If two such stages follow each other, the numbers keep their second passes, or
  // second inputs, apart.
  std::uint32_t repeats = 0;
  std::uint32_t branches = 0;
};

/// A stage's place in the run, where it is opened.
struct OpenContext {
  RunServices& run;
  std::uint64_t epoch = 0;
  std::uint64_t path = 0;  ///< the path of the place, including repetitions
  StagePlace place{};
  /// True inside interleave or flat_map, where a stage gets no threads of its own.
  bool nested = false;
  /// False if work is redone to return to a run's position. That run has already counted the
  /// failures.
  bool counted = true;
  /// The same for elements that caches draw as in the first epoch.
  bool first_counted = true;
  /// The stores of a nested dataset's caches. Null at the top, where the run keeps them.
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
  /// Returns the context of a place's first epoch and first repetition. A cache keeps the elements
  /// drawn there.
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
  /// Returns the context of the i-th of several inputs. The first one keeps the path.
  OpenContext branch(std::size_t i) const {
    OpenContext result =
        i == 0 ? *this : with_path(kBranch + (std::uint64_t{place.branches} << 32) + i);
    ++result.place.branches;
    return result;
  }

 private:
  // Keep passes and branches apart from each other and from the index of a parent.
  static constexpr std::uint64_t kPass = 0x7061737300000000ULL;
  static constexpr std::uint64_t kBranch = 0x6272616e63680000ULL;
};

/// The kind of a stage's items: values, references that cannot fail, or references that may.
enum class Pending { none, infallible, fallible };

/// The relation of a stage's elements to those of its input.
enum class Relation {
  other,  ///< depends on several elements, or on their order
  some,   ///< some of them; each is kept or dropped by itself
  each,   ///< one for each, in the same order, made from it alone
  same,   ///< the same elements
};

/// One shard out of `count`.
struct WhichShard {
  std::uint64_t count = 1;
  std::uint64_t index = 0;
  bool contiguous = false;
};

/// A value that is computed when it is first asked for. Thread-safe.
template <typename T>
class Computed {
 public:
  template <typename F>
  const T& by(const F& compute) const {
    std::call_once(once_, [&] { value_ = compute(); });
    return value_;
  }

 private:
  mutable std::once_flag once_;
  mutable T value_{};
};

/// A stage. Immutable; shared by datasets.
class Node {
 public:
  virtual ~Node() = default;

  /// Returns the stage's name in explain, errors, TOML and fingerprints, such as "shuffle".
  virtual std::string name() const = 0;
  virtual void describe(Description& description) const = 0;
  virtual OrderIteratorPtr open(const OpenContext& context) const = 0;
  /// Returns the program with which items of this stage begin, if it makes items that need no
  /// value: the program reads a record of its source, or gathers children. A function of the plan
  /// alone, as `step` is. So all processes with the same plan get the same program.
  virtual std::unique_ptr<Program> first_program(RunServices& /*run*/) const { return nullptr; }
  /// Returns the step that the stage applies to each element that passes, if any.
  virtual std::optional<Program::Step> step(RunServices& /*run*/) const { return std::nullopt; }
  // These depend on the inputs' answers, often on several of them. Each is computed once for a
  // stage. Otherwise the time would double with each stage of a chain.

  /// Returns the kind of `open`'s items. The default is the kind of the first input's items.
  Pending pending() const {
    return pending_.by([this] { return find_pending(); });
  }
  /// Returns what is known of the output's batches, if it is known that the output consists of
  /// batches. The default is the input's answer, if the elements are some or all of the input's.
  const std::optional<BatchRows>& batch_rows() const {
    return batch_rows_.by([this] { return find_batch_rows(); });
  }
  /// Returns the number of records if they can be fetched by position. Known without opening.
  std::optional<std::uint64_t> indexed_size() const {
    return indexed_size_.by([this] { return find_indexed_size(); });
  }
  /// Returns the cost of restoring this stage, without its inputs.
  Resume resume() const {
    return resume_.by([this] { return find_resume(); });
  }
  /// Returns the cost of replaying this stage's items. If they are references into an index,
  /// nothing is read again.
  Resume replay() const {
    return replay_.by([this] { return find_replay(); });
  }

  /// True if the stage draws random numbers. It then gets a number of its own to key them.
  virtual bool random() const { return false; }
  /// True if the output may depend on the seed: the stage draws, or a dataset that it makes may
  /// draw.
  virtual bool seeded() const { return random(); }
  virtual Relation relation() const { return Relation::other; }
  virtual Execution execution() const;
  /// True if this stage looks at the elements of that input, or must know whether they fail. A
  /// segment then ends in front of the stage and makes the elements in parallel.
  virtual bool wants_values(std::size_t input) const;
  /// Returns the batches that the stage makes, if any. The plan fills in `slot_bytes`.
  virtual std::optional<BatchInfo> batches() const { return std::nullopt; }
  /// Returns a stage that makes the same batches of other elements and keeps the remainder. Null if
  /// the stage cannot make one.
  virtual NodePtr batched_over(NodePtr /*elements*/) const { return nullptr; }
  /// Returns the same stage over the input's elements in other batches. Null if the rows that come
  /// out would then differ.
  virtual NodePtr over(NodePtr /*input*/) const { return nullptr; }
  /// Returns the same stage with elements in the form that ragged batches copy (PackingOp). Null if
  /// it cannot make that form.
  virtual NodePtr packing() const { return nullptr; }
  /// True if the stage fills batches up with rows that are not samples.
  virtual bool pads() const { return false; }
  /// Returns which part of its input the stage keeps, if it is a shard.
  virtual std::optional<WhichShard> shard() const { return std::nullopt; }
  /// Returns the source that the stage reads, if any.
  virtual SourcePtr source() const { return nullptr; }
  /// Returns the cardinality that the stage would have if its inputs had these; nothing if that
  /// cannot be determined.
  virtual std::optional<std::int64_t> cardinality_of(
      std::span<const std::int64_t> /*inputs*/) const {
    return std::nullopt;
  }
  /// Returns how many batches to prepare ahead of this stage's output, if it asks for that;
  /// otherwise -1.
  virtual std::int64_t prefetch_depth() const { return -1; }
  /// False if it calls a user's code, whose results Penstock cannot guarantee.
  virtual bool deterministic() const { return true; }
  /// False if the order of its elements is not a function of the graph.
  virtual bool ordered() const { return true; }
  /// Saves settings that were changed during runs and decide their output from this epoch on.
  /// `reached` gets how far runs have used them, which may be further than a consumer has come; not
  /// if `exact`.
  virtual void save_record(std::uint64_t /*epoch*/, bool /*exact*/, StateWriter& /*record*/,
                           StateWriter& /*reached*/) const {}
  virtual void restore_record(StateReader& /*record*/, StateReader& /*reached*/) const {}
  /// Returns a sentence for `explain` if the graph is probably not what the user wants; otherwise
  /// an empty string.
  virtual std::string advice() const { return {}; }

  const std::vector<NodePtr>& inputs() const noexcept { return inputs_; }
  const Spec& spec() const noexcept { return spec_; }
  std::int64_t cardinality() const noexcept { return cardinality_; }

 protected:
  /// Throws Error{invalid_argument} for a chain of more than kMostStages.
  Node(std::vector<NodePtr> inputs, Spec spec, std::int64_t cardinality);

  const Node& input(std::size_t i = 0) const noexcept { return *inputs_[i]; }

  virtual Pending find_pending() const {
    return inputs_.empty() ? Pending::none : inputs_[0]->pending();
  }
  virtual std::optional<BatchRows> find_batch_rows() const;
  virtual Resume find_resume() const { return Resume::position; }
  virtual std::optional<std::uint64_t> find_indexed_size() const { return std::nullopt; }

 private:
  Resume find_replay() const;

  Computed<Pending> pending_;
  Computed<std::optional<BatchRows>> batch_rows_;
  Computed<std::optional<std::uint64_t>> indexed_size_;
  Computed<Resume> resume_, replay_;
  std::vector<NodePtr> inputs_;
  Spec spec_;
  std::int64_t cardinality_;
  int depth_ = 1;  // stages of the longest chain that ends here
};

/// The elements that a cache holds for a run: all of them, or none yet.
struct CacheStore;

/// The services that the engine offers to stages. Thread-safe.
class RunServices {
 public:
  virtual ~RunServices() = default;

  /// Makes the items' values in parallel, in the same order (in place if the context is nested).
  /// Items that fail become errors in their place. Items that a predicate dropped are left out.
  virtual OrderIteratorPtr values(const Node& owner, OrderIteratorPtr input,
                                  const OpenContext& context, bool ordered = true) = 0;
  /// Makes batches as `node.batches()` describes, written in place into recycled slots.
  virtual OrderIteratorPtr batches(const Node& node, OrderIteratorPtr input,
                                   const OpenContext& context, bool drop_remainder) = 0;

  /// True if failed elements are skipped.
  virtual bool skips() const noexcept = 0;
  /// Makes the item's value on this thread. Returns it, or the error in its place.
  virtual ElementRef made(const ElementRef& item, const OpenContext& context) = 0;

  virtual std::uint64_t seed() const noexcept = 0;
  /// RunOptions::trust_data.
  virtual bool trust_data() const noexcept = 0;
  /// Returns the number that keys a random stage's draws. Stages that draw nothing have no number,
  /// so adding them does not change the draws of others.
  virtual std::uint32_t rng_op(const Node& node) = 0;
  virtual StageCounters* counters(const Node& node) = 0;
  /// Returns the stage's name in reports and errors, such as "map[2] decode".
  virtual std::string stage_name(const Node& node) = 0;
  /// Returns the run's program of this node after `parent`: the one made before, or else
  /// `candidate`. It lives as long as the run.
  virtual const Program* intern(const Node& node, const Program* parent,
                                std::unique_ptr<Program> candidate) = 0;
  virtual std::shared_ptr<CacheStore> cache(const Node& node, const OpenContext& context) = 0;
  /// True if the calling thread has to stop: the run was cancelled, or the work that it pulls for
  /// is being taken down.
  virtual bool stopping() const noexcept = 0;
  /// Throws Error{cancelled} if the thread has to stop. Every `pull` passes this error on. Code
  /// that may run without end or wait within a pull calls this: returning an end or an error would
  /// be taken for part of the data.
  void check_stop() const;
  /// Counts an error that a stage left out.
  virtual void left_out(const Error& error) = 0;
  /// Reports that `error`, which the stage puts in its place, does not belong to a single element.
  /// It comes out under `skip` too, and ends the run there.
  virtual void give_up(const Error& error) = 0;
  /// Returns the size of the byte budget.
  virtual std::uint64_t memory_limit() const noexcept = 0;
  /// Returns the memory into which streams read their records. Allocating waits for room.
  virtual ReadContext& stream_memory() = 0;
  /// Charges the budget for memory that a stage has besides tensors, until the result, which has no
  /// data, is dropped. Waits for room. Throws Error{resource_exhausted}.
  virtual BufferPtr charge(std::uint64_t bytes) = 0;
};

/// Returns what is known of the batches of a stage that makes one batch from each batch of `input`.
/// If the outermost dimension is unchanged, it still counts the rows.
std::optional<BatchRows> rows_through(const Node& input, const Spec& output);
/// Returns what is known if batches of the first `count` inputs come in any order.
std::optional<BatchRows> rows_of_any(const std::vector<NodePtr>& inputs, std::size_t count);
/// Returns what is known if the batches of `input` come in any order, so that a short one need not
/// be the last.
std::optional<BatchRows> rows_in_any_order(const Node& input);

/// Returns the generator of an order stage's random numbers.
inline Rng order_rng(const Node& node, const OpenContext& context, std::uint64_t seed,
                     std::uint64_t draw) {
  return {epoch_key(seed, context.epoch), mix_path(context.path, draw), context.run.rng_op(node)};
}

/// Arithmetic on cardinalities, which may be infinite or unknown.
std::int64_t add_cardinality(std::int64_t a, std::int64_t b) noexcept;
std::int64_t min_cardinality(std::int64_t a, std::int64_t b) noexcept;

/// Throws Error{invalid_argument} "<stage>: <message>".
[[noreturn]] void bad_stage(std::string_view stage, std::string message);

/// The most items, or positions, that pass through stages at a time.
inline constexpr std::size_t kBlock = 256;

}  // namespace penstock
