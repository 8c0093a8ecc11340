// What a dataset becomes when it runs, known before anything is opened or read.
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
  values,      ///< the same, behind values that are made for it in parallel
  verdicts,    ///< its predicate runs in parallel; elements are kept or dropped in order
  fused,       ///< runs in parallel, together with the stages behind it
  unordered,   ///< runs in parallel; results come as they finish
  held,        ///< holds values, and gathers them in parallel, several results at a time
  gathered,    ///< makes values, which are copied once into their batch
  in_place,    ///< elements are written straight into rows of recycled slots
};

/// What it costs a stage to go back to a saved position.
enum class Resume {
  position,  ///< nothing: it goes there
  order,     ///< it replays references, nanoseconds each
  work,      ///< it reads or computes elements again
};
/// "position", "order", "work".
std::string_view name_of(Resume resume) noexcept;

/// The batches that a stage makes.
struct BatchInfo {
  std::int64_t rows = 0;        ///< elements of a full batch
  bool drop_remainder = false;  ///< the last batch is left out unless it is full
  bool in_place = false;        ///< elements are written into slots, else gathered and copied
  Spec element{};               ///< of one row
  /// Bytes of a full batch, byte strings aside; SIZE_MAX: more than any budget. 0 where elements
  /// have no fixed size.
  std::uint64_t slot_bytes = 0;
};

/// A stage as it will run.
struct PlannedStage {
  std::string name{};     ///< "shuffle": its kind
  std::string label{};    ///< "map[2] decode": the name in errors and statistics
  std::string options{};  ///< "buffer=100, reshuffle=true"
  Spec spec{};
  std::int64_t cardinality = 0;                 ///< elements; kInfinite, kUnknown
  std::optional<std::uint64_t> indexed_size{};  ///< elements, if they can be had by position
  SourcePtr source{};                           ///< what a source reads; null for other stages
  Execution execution = Execution::order;
  Resume resume = Resume::position;
  std::optional<BatchInfo> batches{};  ///< if it makes batches
  std::int64_t prefetch = -1;          ///< batches to have ahead of this stage; -1: not said
  std::size_t uses = 1;                ///< places in the graph
  int depth = 0;                       ///< 0 on the main line, more on a branch
  std::string advice{};                ///< a sentence if it is likely not what is wanted
  const Node* node = nullptr;          ///< lives as long as the plan
};

/// A part of the graph between two places where values are made. One thread arranges references to
/// its elements; what is to be done to each is done in parallel, in groups.
struct PlannedSegment {
  /// What leaves it: values in their order or as they finish, or batches that they were written
  /// into. Whatever its input gives, values of its own or references, ends there.
  enum class Gives { values, unordered_values, batches };
  Gives gives = Gives::values;
  /// Label of the stage that has them made, whose predicate or key, if any, is the last op.
  std::string owner{};
  std::vector<std::string> order{};     ///< labels of the stages that arrange references
  std::vector<std::string> program{};   ///< labels of those that are carried out in parallel
  std::vector<std::size_t> in_front{};  ///< numbers of the segments that it takes values from
};

/// Immutable, except for being assigned to. Safe to share between threads.
class Plan {
 public:
  /// Each stage once, inputs before those that take from them.
  const std::vector<PlannedStage>& stages() const noexcept { return stages_; }
  /// The stage of this node; null if the plan has none.
  const PlannedStage* find(const Node& node) const noexcept;
  const NodePtr& root() const noexcept { return root_; }
  const Spec& spec() const noexcept { return stages_.back().spec; }

  /// Each once for each place that it is used in, those in front before those that take from them.
  const std::vector<PlannedSegment>& segments() const noexcept { return segments_; }

  /// The batches that come out at the end, if the last stage makes them, or stages behind that pass
  /// them on as they are.
  const std::optional<BatchInfo>& batches() const noexcept { return batches_; }
  /// The stage that makes these. REQUIRES: batches().
  const PlannedStage& batch_stage() const noexcept { return stages_[batch_stage_]; }
  /// What that stage batches. REQUIRES: batches().
  Dataset elements() const;
  /// The same batches of other elements, with their remainder; nothing if that stage can't make
  /// them. REQUIRES: batches().
  std::optional<Dataset> batches_of(const Dataset& elements) const;

  std::uint64_t memory_limit() const noexcept { return memory_limit_; }
  /// Bytes of one slot of each place of a batch stage; SIZE_MAX: more than can be counted.
  std::uint64_t least_memory() const noexcept { return least_memory_; }
  /// Throws Error{resource_exhausted}, with the bytes and what they are for, if that is more than
  /// the limit.
  void check_memory() const;

  Guarantee guarantee() const noexcept { return guarantee_; }
  /// The dearest of all stages.
  Resume resume() const noexcept { return resume_; }
  /// False if elements come in the order in which an unordered map finishes them.
  bool ordered() const noexcept { return ordered_; }
  /// Why no position can be saved; empty if it can.
  const std::string& unsavable() const noexcept { return unsavable_; }
  /// True if some stage is a shard.
  bool sharded() const noexcept { return sharded_; }
  /// Why a run can't go on with another number of shards; empty if it can.
  const std::string& inelastic() const noexcept { return inelastic_; }
  /// Elements (rows, of batches) that an epoch has; -1 if the graph does not tell.
  std::int64_t expected_elements() const noexcept { return expected_elements_; }

  /// What `penstock explain` prints.
  std::string to_string() const;

 private:
  friend Plan compile(const Dataset& dataset, const RunOptions& options);
  void add(const Node& node, std::int64_t prefetch, int depth);
  std::size_t add_segment(const Node& last, const Node& owner);
  void collect(const Node& node, const Node& owner, PlannedSegment& segment);

  NodePtr root_;
  std::vector<PlannedStage> stages_;
  std::map<const Node*, std::size_t> index_;  // in stages_
  std::vector<PlannedSegment> segments_;
  std::optional<BatchInfo> batches_;
  std::size_t batch_stage_ = 0;
  std::uint64_t memory_limit_ = 0;
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

/// The plan of a run of `dataset` with these options. Opens and reads nothing, and never throws for
/// want of memory: `Plan::check_memory` does.
Plan compile(const Dataset& dataset, const RunOptions& options = {});

}  // namespace penstock
