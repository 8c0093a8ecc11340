// Plans: what a dataset becomes when it runs, known before anything is opened or read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/dataset.h>

namespace penstock {

/// How a stage is carried out.
enum class Execution {
  references,  ///< an indexed source: references, whose records are read in parallel
  stream,      ///< a source without an index, read on the thread that arranges elements
  positions,   ///< computes positions of an indexed input; nothing is read
  order,       ///< moves references or values on the thread that arranges elements
  values,      ///< moves references or values; its input's values are made in parallel
  verdicts,    ///< its predicate runs in parallel; elements are kept or dropped in order
  fused,       ///< runs in parallel, together with the stages after it
  unordered,   ///< runs in parallel; results come as they finish
  held,        ///< holds values and gathers them in parallel, several results at a time
  gathered,    ///< makes values, which are copied once into their batch
  in_place,    ///< elements are written straight into rows of reused slots
};

/// The cost for a stage to return to a saved position.
enum class Resume {
  position,  ///< nothing: it goes there directly
  order,     ///< it replays references, nanoseconds each
  work,      ///< it reads or computes elements again
};
/// Returns "position", "order" or "work".
std::string_view name_of(Resume resume) noexcept;

/// The batches that a stage makes.
struct BatchInfo {
  std::int64_t rows = 0;        ///< elements of a full batch
  bool drop_remainder = false;  ///< the last batch is left out unless it is full
  bool in_place = false;        ///< elements are written into slots, else gathered and copied
  Spec element{};               ///< the spec of one row
  /// Bytes of a full batch, without byte strings. SIZE_MAX: more than any budget. 0 where elements
  /// have no fixed size.
  std::uint64_t slot_bytes = 0;
};

/// The plan's knowledge of the rows of the batches that come out of a stage.
struct BatchRows {
  std::int64_t full = 0;  ///< rows of a full batch; 0: they differ from batch to batch
  std::int64_t most = 0;  ///< no batch has more; 0: not known
  /// The batches that may have fewer rows than `full`.
  enum class Fewer { none, last, any } fewer = Fewer::last;
  /// True if rows are the outermost dimension of each component, which may be cut there.
  bool divisible = true;
  /// True if all batches have `full` rows, of which those past `valid_rows` are padding.
  bool padded = false;
  bool kept = false;  ///< their memory is kept, and may come again
  int round = 1;      ///< so many batches of one kind come one after another

  friend bool operator==(const BatchRows&, const BatchRows&) = default;
};

/// A stage as it will run.
struct PlannedStage {
  std::string name{};            ///< "shuffle": its kind
  std::string label{};           ///< "map[2] decode": its name in errors and statistics
  std::string options{};         ///< "buffer=100, reshuffle=true"
  Spec spec{};                   ///< of the elements that it gives
  std::int64_t cardinality = 0;  ///< elements; kInfinite, kUnknown
  /// The number of elements, if they can be read by position.
  std::optional<std::uint64_t> indexed_size{};
  /// The source that the stage reads; null for other stages.
  SourcePtr source{};
  Execution execution = Execution::order;  ///< how it is carried out
  Resume resume = Resume::position;        ///< the cost of a return to a saved position
  std::optional<BatchInfo> batches{};      ///< its batches, if it makes some
  std::int64_t prefetch = -1;              ///< batches to prepare ahead of this stage; -1: not said
  std::size_t uses = 1;                    ///< places in the graph
  int depth = 0;                           ///< 0 on the main line, more on a branch
  /// A sentence, if the stage is likely not what you want.
  std::string advice{};
  const Node* node = nullptr;  ///< lives as long as the plan
};

/// A part of the graph between two places where values are made. One thread arranges references to
/// its elements. The work on each element runs in parallel, in groups.
struct PlannedSegment {
  /// The output of a segment: values in their order or as they finish, or batches that values were
  /// written into. The input's own values and references end in the segment.
  enum class Gives { values, unordered_values, batches };
  Gives gives = Gives::values;  ///< the output of this one
  /// The label of the stage that has the values made. Its predicate or key, if any, is the last op.
  std::string owner{};
  std::vector<std::string> order{};     ///< labels of the stages that arrange references
  std::vector<std::string> program{};   ///< labels of the stages that run in parallel
  std::vector<std::size_t> in_front{};  ///< numbers of the segments that it takes values from
};

/// The most bytes of the memory budget that each kind of use takes. The shares overlap: any of them
/// may find less room than this.
struct BudgetShares {
  BudgetShares() = default;
  /// Divides a budget of `all` bytes for a run with so many threads that compute.
  BudgetShares(std::uint64_t all, int threads);

  std::uint64_t slots = 0;  ///< batches made ahead, of all batch stages together
  std::uint64_t kept = 0;   ///< elements that one stage keeps: of a shuffle, a window, a cache
  std::uint64_t group = 0;  ///< elements that a thread makes together, with what that takes
  /// Behind an element that takes long, more are made than usual while this is free.
  std::uint64_t free_for_more = 0;
  /// A request to a process that works for the run, with its answer. In such a process: the
  /// requests that wait, and the answers that a run of the same machine has not read.
  std::uint64_t messages = 0;

  /// Returns the bytes that reading for elements ahead leaves of those beside slots.
  static constexpr std::uint64_t left_by_reads(std::uint64_t beside_slots) {
    return beside_slots / 2;
  }
};

/// The plan of a run. Immutable, except that it may be assigned to. Threads may share it.
class Plan {
 public:
  /// Returns each stage once, inputs before the stages that take from them.
  const std::vector<PlannedStage>& stages() const noexcept { return stages_; }
  /// Returns the stage of this node; null if the plan has none.
  const PlannedStage* find(const Node& node) const noexcept;
  /// Returns the last node of the graph.
  const NodePtr& root() const noexcept { return root_; }
  /// Returns the spec of the elements that come out.
  const Spec& spec() const noexcept { return stages_.back().spec; }

  /// Returns the segments, inputs before those that take from them. A segment appears once for each
  /// place where it is used.
  const std::vector<PlannedSegment>& segments() const noexcept { return segments_; }

  /// Returns the batches that come out at the end, if the last stage makes them, or if only stages
  /// that pass them on follow.
  const std::optional<BatchInfo>& batches() const noexcept { return batches_; }
  /// Returns the stage that makes these batches. REQUIRES: batches().
  const PlannedStage& batch_stage() const noexcept { return stages_[batch_stage_]; }
  /// Returns the input of that stage. REQUIRES: batches().
  Dataset elements() const;
  /// Returns the same batches of other elements, with their remainder; nothing if that stage can't
  /// make them. REQUIRES: batches().
  std::optional<Dataset> batches_of(const Dataset& elements) const;

  /// Returns the rows of the batches that come out, also after stages that change them. Returns
  /// nothing if the output is not known to be batches.
  const std::optional<BatchRows>& rows() const noexcept { return rows_; }
  /// Returns the stage that decides the rows. Without `rows()`, it is the stage that takes batches
  /// and may give anything, else the last.
  const PlannedStage& rows_stage() const noexcept { return stages_[rows_stage_]; }
  /// Returns true if elements that make no full batch are left out. REQUIRES: rows().
  bool drops_remainder() const noexcept { return drops_remainder_; }
  /// Returns the same graph over one of `count` shards of the input of the batches, each with its
  /// remainder. Together the shards give the same elements. Throws Error{invalid_argument} naming
  /// the stage that would give other elements. REQUIRES: rows().
  Dataset shard(std::int64_t count, std::int64_t index) const;

  /// Returns the memory budget in bytes.
  std::uint64_t memory_limit() const noexcept { return memory_limit_; }
  /// Returns how the budget is divided.
  const BudgetShares& shares() const noexcept { return shares_; }
  /// Returns the bytes of one slot for each place of a batch stage. SIZE_MAX: more than can be
  /// counted.
  std::uint64_t least_memory() const noexcept { return least_memory_; }
  /// Throws Error{resource_exhausted}, with the bytes and their purpose, if the least memory
  /// exceeds the limit.
  void check_memory() const;

  /// Returns the guarantee of the run; see Dataset::guarantee.
  Guarantee guarantee() const noexcept { return guarantee_; }
  /// Returns the highest cost of all stages.
  Resume resume() const noexcept { return resume_; }
  /// Returns false if elements come in the order in which an unordered map finishes them.
  bool ordered() const noexcept { return ordered_; }
  /// Returns the reason why no position can be saved; empty if it can.
  const std::string& unsavable() const noexcept { return unsavable_; }
  /// Returns true if some stage is a shard.
  bool sharded() const noexcept { return sharded_; }
  /// Returns the reason why a run can't be resumed with another number of shards; empty if it can.
  const std::string& inelastic() const noexcept { return inelastic_; }
  /// Returns the number of elements of an epoch, or of rows for batches; -1 if the graph does not
  /// tell.
  std::int64_t expected_elements() const noexcept { return expected_elements_; }

  /// Returns the text of `Dataset::explain`, which `penstock explain --verbose` prints.
  std::string to_string() const;
  /// Returns the text that `penstock explain` prints. It has a line for each stage with what it
  /// makes of its input, and memory, the guarantee and advice.
  std::string summary() const;
  /// Returns the graph in Graphviz's language, inputs above the stages that take from them.
  std::string to_dot() const;

 private:
  friend Plan compile(const Dataset& dataset, const RunOptions& options);
  void add(const Node& node, std::int64_t prefetch, int depth);
  std::size_t add_segment(const Node& last, const Node& owner);
  void collect(const Node& node, const Node& owner, PlannedSegment& segment);

  NodePtr root_;
  std::vector<PlannedStage> stages_;
  std::map<const Node*, std::size_t> index_;  // in stages_
  int places_ = 0;                            // stages, each as often as it is used
  std::vector<PlannedSegment> segments_;
  std::optional<BatchInfo> batches_;
  std::size_t batch_stage_ = 0;
  std::optional<BatchRows> rows_;
  std::size_t rows_stage_ = 0;
  bool drops_remainder_ = false;
  std::uint64_t memory_limit_ = 0;
  BudgetShares shares_;
  std::uint64_t least_memory_ = 0;
  int threads_ = 0;
  std::uint64_t seed_ = 0;
  Guarantee guarantee_ = Guarantee::exact;
  Resume resume_ = Resume::position;
  bool ordered_ = true;
  bool sharded_ = false;
  std::string unsavable_;
  std::string inelastic_;
  std::int64_t expected_elements_ = -1;
};

/// Returns the plan of a run of `dataset` with these options. Opens and reads nothing. Does not
/// throw for too little memory: `Plan::check_memory` does.
Plan compile(const Dataset& dataset, const RunOptions& options = {});

}  // namespace penstock
