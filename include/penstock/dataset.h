// Datasets: immutable graphs of stages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <penstock/image.h>
#include <penstock/iterator.h>
#include <penstock/map.h>
#include <penstock/source.h>
#include <penstock/stage_options.h>

namespace penstock {

/// The cardinality of a dataset without an end; as a count for `repeat`, for ever.
inline constexpr std::int64_t kInfinite = -1;
/// The cardinality of a dataset whose number of elements is not known before it runs.
inline constexpr std::int64_t kUnknown = -2;

/// The promise that a dataset makes for each element when a run is stopped anywhere and restored.
enum class Guarantee {
  exact,                   ///< delivered once, with the same bytes
  exact_if_deterministic,  ///< the same, if the user's callables depend on their input alone
};
/// Returns "EXACT" or "EXACT_IF_DETERMINISTIC".
std::string_view name_of(Guarantee guarantee) noexcept;

class Node;
using NodePtr = std::shared_ptr<const Node>;

/// A type that can't be used as a callable of type `Fn`.
template <typename F, typename Fn>
concept NotA = !std::is_convertible_v<F, Fn>;

/// An immutable graph of stages. It is cheap to copy, and nothing runs before `iterate`. Methods
/// return a longer graph. They throw Error{invalid_argument} at once if a stage does not fit, and
/// name the stage, the component and both specs. Thread-safe. Each stage means what the tf.data
/// stage of that name means, unless its comment says otherwise. docs/stages.md describes every
/// stage.
class Dataset {
 public:
  /// Wraps a node of a graph.
  explicit Dataset(NodePtr node) : node_(std::move(node)) {}
  /// Returns the dataset of all records of `source`.
  explicit Dataset(SourcePtr source);

  // Order stages: cheap and sequential.

  /// Keeps the elements whose position modulo `count` is `index`. An input with an index reads only
  /// the elements that are kept.
  Dataset shard(std::int64_t count, std::int64_t index, ShardOptions options = {}) const;
  /// Changes the order. Without a buffer this is a perfect shuffle, which needs an input with an
  /// index.
  Dataset shuffle(ShuffleOptions options = {}) const;
  /// Runs the input `count` times, or for ever if `count` is negative.
  Dataset repeat(std::int64_t count = kInfinite) const;
  /// Gives the first `count` elements, or all of them if `count` is negative.
  Dataset take(std::int64_t count) const;
  /// Gives all elements but the first `count`, or none if `count` is negative.
  Dataset skip(std::int64_t count) const;
  /// Ends at the first element that `predicate` refuses. Predicates run in parallel and ahead, so
  /// `predicate` may be called for a few elements after the end.
  Dataset take_while(Predicate predicate) const;
  /// Keeps the elements for which `predicate` returns true, in their order. Predicates run in
  /// parallel. `name` stands for the predicate in errors, explain and the fingerprint: change it
  /// with the predicate.
  Dataset filter(Predicate predicate, std::string name = "filter") const;
  /// Adds an i64 component `component` that counts from `start`.
  Dataset enumerate(std::int64_t start = 0, std::string component = "index") const;
  /// Gives all elements of this dataset, then all of `other`. Names and dtypes must be the same; a
  /// dimension that differs becomes unknown.
  Dataset concatenate(const Dataset& other) const;
  /// Makes a dataset of each element with `fn` and takes elements from several of these in turn.
  /// Each must have the spec `output`; one with another spec is the error of its element.
  Dataset interleave(FlatMapFn fn, Spec output, InterleaveOptions options = {}) const;
  /// Makes a dataset of each element with `fn` and gives these one after the other.
  Dataset flat_map(FlatMapFn fn, Spec output) const;
  /// Takes batches apart: the valid rows become elements that view the batch's memory.
  Dataset unbatch() const;
  /// Cuts the rows of batches into new batches of `size` rows.
  Dataset rebatch(std::int64_t size, BatchOptions options = {}) const;
  /// Cuts the rows of batches into new batches whose sizes are used in turn. A size of 0 makes an
  /// empty batch.
  Dataset rebatch(std::vector<std::int64_t> sizes, BatchOptions options = {}) const;
  /// Keeps the first of several elements that are equal in these components; by default in all of
  /// them. The stage remembers the elements it has seen, within the memory budget. A restored run
  /// reads them again.
  Dataset unique(std::vector<std::string> components = {}) const;
  /// Runs a state through the elements, one after the other. A restored run repeats this from the
  /// start of the pass.
  Dataset scan(Element initial, ScanFn fn, ScanOptions options = {}) const;
  /// Drops elements at random so that the classes, counted from 0, come with the shares of
  /// `target`.
  Dataset rejection_resample(KeyFn class_of, std::vector<double> target,
                             ResampleOptions options = {}) const;
  /// Leaves out elements that failed, whatever the run's error policy is. They are counted and,
  /// with `log_warning`, written to the log.
  Dataset ignore_errors(bool log_warning = false) const;
  /// Gives each window as a batch. Element j of window k is the input's element k * shift + j *
  /// stride.
  Dataset window(std::int64_t size, WindowOptions options = {}) const;
  /// Makes a dataset of each window with `each` and gives these one after the other.
  Dataset window(std::int64_t size, WindowFn each, WindowOptions options = {}) const;
  /// Gathers elements of equal key in windows and gives each window when it is full. Windows that
  /// are not full come at the end, in the order of their keys.
  Dataset group_by_window(KeyFn key, GroupOptions options) const;
  /// Keeps the elements of the first full pass in memory, counted against the budget, and replays
  /// them in later passes.
  Dataset cache() const;
  /// Keeps the elements in a file, for later passes and for later runs. The first run that reaches
  /// the end writes the file. It is valid for this graph, for the data that the graph reads and, if
  /// the graph draws random numbers, for the seed.
  Dataset cache(std::string file) const;
  /// Keeps the elements in a folder that several graphs can share, with one file for each graph.
  Dataset snapshot(std::string folder) const;
  /// Makes all batches equally large and their number independent of bad elements. Follows batches
  /// of one size. After a shard, every shard gives as many batches as the largest. Missing rows are
  /// zeros after `valid_rows` rows, and they are counted. The number of batches must be known.
  Dataset pad_batches() const;
  /// Sets the number of batches to prepare ahead, if it follows a batch stage. With 0 or -1 the
  /// engine chooses the number, as it always does for single elements.
  Dataset prefetch(std::int64_t count = -1) const;

  // Work stages: heavy and parallel.

  /// Replaces each element by the result of `fn`, in parallel. `MapCallable` lists the forms that
  /// `fn` may have; calls come from several threads at once. An exception that leaves `fn` becomes
  /// the element's error.
  template <MapCallable F>
  Dataset map(F fn, MapOptions options = {}) const {
    const bool ordered = options.ordered;
    return map_op(make_map_op(std::move(fn), resolve_adds(std::move(options), spec())), ordered);
  }
  /// Replaces elements by the results of a callable that takes many of them at once, for work that
  /// is too small to be called for each.
  Dataset map_batchwise(BatchFn fn, MapOptions options = {}) const {
    const bool ordered = options.ordered;
    return map_op(make_batch_fn_op(std::move(fn), resolve_adds(std::move(options), spec())),
                  ordered);
  }
  /// Runs a chain of image ops on each element, in parallel.
  Dataset map(const ImageOps& ops) const { return map_op(ops.op()); }
  /// Runs a WorkOp on each element, in parallel. With `ordered` false, results come as they finish.
  Dataset map_op(WorkOpPtr op, bool ordered = true) const;
  /// Keeps only these components, in this order. This costs nothing: it is joined with the stage in
  /// front of it.
  Dataset keep(std::vector<std::string> components) const;
  /// Keeps all components but these, at no cost.
  Dataset drop(std::vector<std::string> components) const;
  /// Stacks `size` elements: every component gets the batch as its outermost dimension.
  Dataset batch(std::int64_t size, BatchOptions options = {}) const;
  /// Pads the components of `size` elements to one shape, then stacks them.
  Dataset padded_batch(std::int64_t size, PaddedBatchOptions options = {}) const;
  /// Batches and pads elements of similar length. A batch is full by its number of elements or by a
  /// token budget.
  Dataset bucket_by_length(BucketOptions options) const;
  /// Puts whole sequences together in rows of one length. A sequence goes to the first open row
  /// that has room for it.
  Dataset pack(PackOptions options) const;
  /// Puts elements whose outermost dimension differs one after the other, in one slot. A component
  /// x of unknown length becomes x [total, ...] and x.row_splits i64 [rows + 1].
  Dataset ragged_batch(std::int64_t size, BatchOptions options = {}) const;

  /// Returns the spec of the elements.
  const Spec& spec() const noexcept;
  /// Returns the number of elements, kInfinite or kUnknown.
  std::int64_t cardinality() const noexcept;
  /// Returns the graph, the plan, specs, memory and warnings as text.
  std::string explain(const RunOptions& options = {}) const;
  /// Starts a run. Throws Error{resource_exhausted}, with the bytes, if the least memory that the
  /// plan needs exceeds the budget.
  Iterator iterate(const RunOptions& options = {}) const;
  /// Resumes a run where `state` was saved, with the same order and bytes. Threads, memory and
  /// slots may differ; the seed is the one in the state. If the state is of an epoch that this run
  /// does not have, the run is over. Throws Error{invalid_argument} naming the stage or shard if
  /// the graph or its data are not the same. Throws Error{data_loss} if the state is damaged.
  Iterator restore(std::string_view state, RunOptions options = {}) const;

  /// Resumes a run with another number of consumers. `states` are those of all N consumers that
  /// stopped, in any order; this dataset is one of M shards. All N must have stopped at the same
  /// position of the same epoch. `shard` must come after every shuffle. After it there may be only
  /// maps, prefetches and one batch that is written in place. Error{invalid_argument} names the
  /// condition that does not hold.
  Iterator restore(const std::vector<std::string>& states, RunOptions options = {}) const;
  /// Returns what a run that is stopped and restored delivers; see docs/reliability.md.
  Guarantee guarantee() const;

  /// Calls `fn` with this dataset, as a stage of your own: any function from dataset to dataset.
  template <typename F>
  auto apply(F&& fn) const {
    return fn(*this);
  }

  /// Gives the records at these positions, in this order. The input must have an index.
  Dataset select(std::vector<std::uint64_t> indices) const;
  /// Returns two disjoint datasets, the first with `share` of the elements. A seeded permutation
  /// decides. The input must have an index.
  std::pair<Dataset, Dataset> split_at(double share, std::uint64_t seed) const;

  /// Returns the last node of the graph.
  const NodePtr& node() const noexcept { return node_; }

  // Overloads for arguments that no stage takes: a static_assert says what the stage does take.
  template <typename F>
  requires(!MapCallable<F> && !std::is_convertible_v<F, ImageOps>) Dataset map(F, MapOptions = {})
  const {
    static_assert(
        kNever<F>,
        "map takes a callable Element(Element), Element(Element, Rng&), void(const "
        "Element&, Element& out, Rng&) or, with adds, a value(const Element&); image ops; "
        "and a WorkOp goes to map_op");
    return *this;
  }
  template <NotA<BatchFn> F>
  Dataset map_batchwise(F, MapOptions = {}) const {
    static_assert(kNever<F>,
                  "map_batchwise takes a callable void(const Element& in, Element& out)");
    return *this;
  }
  template <NotA<Predicate> F>
  Dataset filter(F, std::string = {}) const {
    static_assert(kNever<F>, "filter takes a callable bool(const Element&)");
    return *this;
  }
  template <NotA<Predicate> F>
  Dataset take_while(F) const {
    static_assert(kNever<F>, "take_while takes a callable bool(const Element&)");
    return *this;
  }
  template <NotA<FlatMapFn> F>
  Dataset flat_map(F, Spec) const {
    static_assert(kNever<F>, "flat_map takes a callable Dataset(const Element&)");
    return *this;
  }
  template <NotA<FlatMapFn> F>
  Dataset interleave(F, Spec, InterleaveOptions = {}) const {
    static_assert(kNever<F>, "interleave takes a callable Dataset(const Element&)");
    return *this;
  }
  template <NotA<ScanFn> F>
  Dataset scan(Element, F, ScanOptions = {}) const {
    static_assert(
        kNever<F>,
        "scan takes a callable std::pair<Element, Element>(const Element& state, Element)");
    return *this;
  }
  template <NotA<KeyFn> F>
  Dataset group_by_window(F, GroupOptions) const {
    static_assert(kNever<F>, "group_by_window takes a callable std::int64_t(const Element&)");
    return *this;
  }
  template <NotA<KeyFn> F>
  Dataset rejection_resample(F, std::vector<double>, ResampleOptions = {}) const {
    static_assert(kNever<F>, "rejection_resample takes a callable std::int64_t(const Element&)");
    return *this;
  }
  template <NotA<WindowFn> F>
  requires(!std::is_convertible_v<F, WindowOptions>) Dataset
      window(std::int64_t, F, WindowOptions = {})
  const {
    static_assert(kNever<F>, "window takes a callable Dataset(const Dataset& window)");
    return *this;
  }

 private:
  NodePtr node_;
};

/// Gives tuples of one element of each input, and ends with the shortest. Components stand side by
/// side, so their names must differ.
Dataset zip(const std::vector<Dataset>& inputs);
/// Draws each element from an input that is chosen at random by weight.
Dataset sample_from(const std::vector<Dataset>& inputs, std::vector<double> weights,
                    MixOptions options = {});
/// Draws each element from an input that is chosen at random, with weights that may change during
/// the run.
Dataset sample_from(const std::vector<Dataset>& inputs, const MixWeights& weights,
                    MixOptions options = {});
/// Takes each element from the input that the next element of `choices`, one i64, names. Choosing
/// an exhausted input ends the dataset, unless `stop_on_empty` is false.
Dataset choose_from(const std::vector<Dataset>& inputs, const Dataset& choices,
                    bool stop_on_empty = true);

}  // namespace penstock
