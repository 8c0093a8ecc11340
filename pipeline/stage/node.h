// The contract of a stage.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/dataset.h>
#include <penstock/description.h>
#include <penstock/plan.h>
#include <penstock/state.h>

#include "pipeline/stage/open_context.h"
#include "pipeline/stage/order_iterator.h"
#include "pipeline/stage/program.h"

namespace penstock {

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
  /// True if the stage holds values between its outputs (docs/budget.md).
  virtual bool holds_values() const { return execution() == Execution::held; }
  /// True if the stage ends at the first element that its step rejects. It then pulls no element
  /// behind that one, so its position needs none that a serial run does not make.
  virtual bool ends_at_no() const { return false; }
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

/// Throws Error{invalid_argument} with `message`, and the stage as its place.
[[noreturn]] void bad_stage(std::string_view stage, std::string message);

}  // namespace penstock
