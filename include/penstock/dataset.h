// The declarative graph.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <penstock/image.h>
#include <penstock/iterator.h>
#include <penstock/map.h>
#include <penstock/source.h>
#include <penstock/stage_options.h>

namespace penstock {

inline constexpr std::int64_t kInfinite = -1;
inline constexpr std::int64_t kUnknown = -2;

/// What becomes of each element when a run is stopped anywhere and restored.
enum class Guarantee {
  exact,                   ///< delivered once, with the same bytes
  exact_if_deterministic,  ///< the same, if the user's callables depend on their input alone
};
/// "EXACT", "EXACT_IF_DETERMINISTIC".
std::string_view name_of(Guarantee guarantee) noexcept;

class Node;
using NodePtr = std::shared_ptr<const Node>;

/// An immutable graph of stages. Cheap to copy; nothing runs before `iterate`. Methods return a
/// longer graph and throw Error{invalid_argument} at once if it is wrong, naming the stage, the
/// component and both specs. Thread-safe. The meaning of each stage is tf.data's unless its comment
/// says otherwise; see docs/stages.md.
class Dataset {
 public:
  explicit Dataset(NodePtr node) : node_(std::move(node)) {}
  explicit Dataset(SourcePtr source);

  // Order: cheap and sequential.
  Dataset shard(std::int64_t count, std::int64_t index, ShardOptions options = {}) const;
  Dataset shuffle(ShuffleOptions options = {}) const;
  Dataset repeat(std::int64_t count = kInfinite) const;
  Dataset take(std::int64_t count) const;
  Dataset skip(std::int64_t count) const;
  Dataset take_while(Predicate predicate) const;
  Dataset filter(Predicate predicate, std::string name = "filter") const;
  /// Adds an i64 component `component` that counts from `start`.
  Dataset enumerate(std::int64_t start = 0, std::string component = "index") const;
  Dataset concatenate(const Dataset& other) const;
  Dataset interleave(FlatMapFn fn, Spec output, InterleaveOptions options = {}) const;
  Dataset flat_map(FlatMapFn fn, Spec output) const;
  Dataset unbatch() const;
  /// Batches taken apart and put together anew; sizes are used in turn.
  Dataset rebatch(std::int64_t size, BatchOptions options = {}) const;
  Dataset rebatch(std::vector<std::int64_t> sizes, BatchOptions options = {}) const;
  /// Keeps the first of elements that are alike in these components; by default in all. What was
  /// seen is remembered, within the memory budget; a run that is restored looks at it again.
  Dataset unique(std::vector<std::string> components = {}) const;
  /// Runs a state through the elements, one after the other. A restored run redoes it.
  Dataset scan(Element initial, ScanFn fn, ScanOptions options = {}) const;
  /// Drops elements so that the classes, counted from 0, come with the shares of `target`.
  Dataset rejection_resample(KeyFn class_of, std::vector<double> target,
                             ResampleOptions options = {}) const;
  /// Leaves out elements that failed, whatever the run's policy. They are counted.
  Dataset ignore_errors(bool log_warning = false) const;
  /// Each window as a batch; its element j is the input's k * shift + j * stride.
  Dataset window(std::int64_t size, WindowOptions options = {}) const;
  /// What `each` makes of every window, one after the other.
  Dataset window(std::int64_t size, WindowFn each, WindowOptions options = {}) const;
  /// Elements of equal key in windows, in the order in which these are full; what is left comes at
  /// the end in the order of the keys.
  Dataset group_by_window(KeyFn key, GroupOptions options) const;
  /// Keeps the elements of the first full pass in memory, counted against the budget, and replays
  /// them.
  Dataset cache() const;
  /// The same in a file, for later runs too: of this graph, of the data it reads and, if it draws
  /// random numbers, of the seed. Written by the first run that gets to the end.
  Dataset cache(std::string file) const;
  /// The same in a folder, with a file for each graph, so that several share it.
  Dataset snapshot(std::string folder) const;
  /// Behind a batch stage: makes all batches equally large, and as many as there would be without
  /// bad elements; behind a shard, as many as the largest shard has. Missing rows are zeros behind
  /// `valid_rows`, and counted. The number of elements must be known.
  Dataset pad_batches() const;
  /// Batches prepared ahead, if this stands behind a batch stage; 0 or -1: chosen by the engine, as
  /// it always is for single elements.
  Dataset prefetch(std::int64_t count = -1) const;

  // Work: heavy and parallel.
  template <MapCallable F>
  Dataset map(F fn, MapOptions options = {}) const {
    const bool ordered = options.ordered;
    return map_op(make_map_op(std::move(fn), std::move(options)), ordered);
  }
  /// A map whose callable takes many elements at once, for work too small to be called for each.
  Dataset map_batchwise(BatchFn fn, MapOptions options = {}) const {
    const bool ordered = options.ordered;
    return map_op(make_batch_fn_op(std::move(fn), std::move(options)), ordered);
  }
  Dataset map(const ImageOps& ops) const { return map_op(ops.op()); }
  Dataset map_op(WorkOpPtr op, bool ordered = true) const;
  Dataset batch(std::int64_t size, BatchOptions options = {}) const;
  Dataset padded_batch(std::int64_t size, PaddedBatchOptions options = {}) const;
  /// Batches of elements of similar length, padded; by count or by token budget.
  Dataset bucket_by_length(BucketOptions options) const;
  /// Sequences put together in rows of one length: first fit.
  Dataset pack(PackOptions options) const;
  /// Elements whose outermost dimension differs, one after the other: the component x of unknown
  /// length becomes x [total, ...] and x.row_splits i64 [rows + 1], in one slot.
  Dataset ragged_batch(std::int64_t size, BatchOptions options = {}) const;

  const Spec& spec() const noexcept;
  /// Number of elements; kInfinite or kUnknown.
  std::int64_t cardinality() const noexcept;
  /// The graph, the plan, specs, memory and warnings, as text.
  std::string explain(const RunOptions& options = {}) const;
  /// Starts a run. Throws Error{resource_exhausted} if the plan's least memory exceeds the budget,
  /// with the bytes.
  Iterator iterate(const RunOptions& options = {}) const;
  /// Goes on where `state` was saved, with the same order and bytes; threads, memory and slots may
  /// differ, the seed is the state's. Throws Error{invalid_argument} naming the stage or shard if
  /// the graph or its data are not the same, Error{data_loss} if the state is damaged.
  Iterator restore(std::string_view state, RunOptions options = {}) const;

  /// Goes on with another number of consumers: `states` are those of all N that stopped, in any
  /// order, this dataset is one of M shards. All N must have delivered as much, and `shard` must
  /// stand behind every shuffle, with nothing but maps, one batch that is written in place and
  /// prefetches behind it; Error{invalid_argument} says what is not so.
  Iterator restore(const std::vector<std::string>& states, RunOptions options = {}) const;
  /// What a run that is stopped and restored delivers; see docs/reliability.md.
  Guarantee guarantee() const;

  /// A stage of your own: any function from dataset to dataset.
  template <typename F>
  auto apply(F&& fn) const {
    return fn(*this);
  }

  /// The records at these positions, in this order. The input must have an index.
  Dataset select(std::vector<std::uint64_t> indices) const;
  /// Two disjoint datasets, the first with `share` of the elements, drawn by a seeded permutation.
  /// The input must have an index.
  std::pair<Dataset, Dataset> split_at(double share, std::uint64_t seed) const;

  const NodePtr& node() const noexcept { return node_; }

 private:
  NodePtr node_;
};

/// Tuples of one element of each, components side by side (names must differ); ends with the
/// shortest.
Dataset zip(const std::vector<Dataset>& inputs);
/// Draws each element from an input chosen at random by weight.
Dataset sample_from(const std::vector<Dataset>& inputs, std::vector<double> weights,
                    MixOptions options = {});
/// The same with weights that may change while it runs.
Dataset sample_from(const std::vector<Dataset>& inputs, const MixWeights& weights,
                    MixOptions options = {});
/// Draws each element from the input that `choices` (one i64 component) names. Stops on an
/// exhausted pick unless told otherwise.
Dataset choose_from(const std::vector<Dataset>& inputs, const Dataset& choices,
                    bool stop_on_empty = true);

}  // namespace penstock
