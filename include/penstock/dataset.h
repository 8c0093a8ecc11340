// Datasets: immutable graphs of stages.
#pragma once

#include <penstock/language.h>  // IWYU pragma: keep

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <penstock/error.h>
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
/// A shared node of a graph.
using NodePtr = std::shared_ptr<const Node>;

/// A type that can't be used as a callable of type `Fn`.
template <typename F, typename Fn>
concept NotA = !std::is_convertible_v<F, Fn>;

/// An immutable graph of stages. It is cheap to copy, and nothing runs before `iterate`. Methods
/// return a longer graph. They throw Error{invalid_argument} at once if a stage does not fit, and
/// name the stage, the component and both specs. Thread-safe. Each stage means what the tf.data
/// stage of that name means, unless its comment says otherwise. docs/stages.md lists all stages and
/// the rules that they share.
///
/// An input has an index if any of its elements can be asked for by position. Sources say whether
/// they have one. A stage loses the index unless its comment says that it keeps it.
///
/// "The stage keeps elements" means that they count against the memory budget. If they exceed three
/// quarters of it, the run ends with Error{resource_exhausted} under every error policy.
class Dataset {
 public:
  /// Wraps a node of a graph.
  explicit Dataset(NodePtr node) : node_(std::move(node)) {}
  /// Returns the dataset of all records of `source`.
  explicit Dataset(SourcePtr source);

  /// @name Order stages: cheap and sequential
  /// @{

  /// Keeps the elements whose position modulo `count` is `index`. Keeps the index; an input with an
  /// index reads only the elements that are kept. A failed element keeps its position, so a shard
  /// holds the same elements whether some fail or not; tf.data does not count it. Cardinality:
  /// n / count, plus one for the first n % count shards. Throws Error{invalid_argument} if `count`
  /// is below 1, and if `index` is outside of [0, count).
  Dataset shard(std::int64_t count, std::int64_t index, ShardOptions options = {}) const;
  /// Changes the order. Without a buffer this is a perfect shuffle: all orders of the whole input
  /// are equally likely. It takes O(1) memory, does not wait at the start, and keeps the index,
  /// which its input must have. With a buffer it is tf.data's shuffle: it draws one of the buffered
  /// elements and refills the buffer from the input. The element at input position i comes out at
  /// position i - (buffer - 1) or later. The stage keeps the elements of its buffer. Cardinality:
  /// the input's.
  Dataset shuffle(ShuffleOptions options = {}) const;
  /// Runs the input `count` times, or for ever if `count` is negative. Random stages before it draw
  /// other numbers in each pass. An infinite repeat ends after a pass without an element. Under
  /// OnError::skip it also ends after a pass in which all failed. To find out, it makes the
  /// elements of each pass up to the first good one before the others. It reads their records
  /// twice. Cardinality: the product.
  Dataset repeat(std::int64_t count = kInfinite) const;
  /// Gives the first `count` elements, or all of them if `count` is negative. `take(0)` asks its
  /// input for nothing. A failed element does not count. Only directly on an indexed source, or on
  /// order stages that keep its index, it counts records, and keeps the index. Put a map in front
  /// to count good elements only. Cardinality: the smaller of `count` and the input's.
  Dataset take(std::int64_t count) const;
  /// Gives all elements but the first `count`, or none if `count` is negative. Counts as `take`
  /// does. Cardinality: max(0, n - count).
  Dataset skip(std::int64_t count) const;
  /// Ends at the first element that `predicate` refuses. Predicates run in parallel and ahead, so
  /// `predicate` may be called for a few elements after the end. A failed element does not end the
  /// stage. Cardinality: unknown.
  Dataset take_while(Predicate predicate) const;
  /// Keeps the elements for which `predicate` returns true, in their order. Predicates run in
  /// parallel. An exception that leaves one becomes the element's error. `name` stands for the
  /// predicate in errors, explain and the fingerprint: change it with the predicate. Cardinality:
  /// unknown, or 0 if the input's is.
  Dataset filter(Predicate predicate, std::string name = "filter") const;
  /// Adds an i64 component `component` that counts from `start`. Elements are numbered before it is
  /// known which fail, so under OnError::skip the numbers of bad ones are missing. Keeps index and
  /// cardinality. Throws Error{invalid_argument} if the input has such a component.
  Dataset enumerate(std::int64_t start = 0, std::string component = "index") const;
  /// Gives all elements of this dataset, then all of `other`. Names and dtypes must be the same; a
  /// dimension that differs becomes unknown. Keeps the index if both have one. Cardinality: the
  /// sum.
  Dataset concatenate(const Dataset& other) const;
  /// Makes a dataset of each element with `fn`. Keeps `cycle` of these open, and takes up to
  /// `block` elements from each in turn. When one ends, the next input takes its place at its next
  /// turn. This order does not depend on threads. Each dataset must have the spec `output`; one
  /// with another spec is the error of its element.
  ///
  /// An element that fails, or whose `fn` throws, is one error in its place, and the next input
  /// takes its place at once. `fn` and the order stages of its datasets run on the order thread,
  /// predicates included; maps at the end of a dataset run in parallel. Cardinality: unknown.
  /// Throws Error{invalid_argument} without `fn`, and for wrong options.
  Dataset interleave(FlatMapFn fn, Spec output, InterleaveOptions options = {}) const;
  /// Makes a dataset of each element with `fn` and gives these one after the other: `interleave`
  /// with a cycle of 1.
  Dataset flat_map(FlatMapFn fn, Spec output) const;
  /// Takes batches apart: the valid rows of every component become elements that view the batch's
  /// memory. Cardinality: the number of rows if every batch has the same known number, infinite if
  /// the input is, else unknown. Throws Error{invalid_argument} for a scalar component, and for
  /// components that are known to have different numbers of rows. If only a batch shows this, it is
  /// the batch's error.
  Dataset unbatch() const;
  /// Cuts the rows of batches into new batches of `size` rows. A new batch within one input batch
  /// is a view of it; any other is copied once. A failed batch costs only its own rows: the rows
  /// gathered before it come as a short batch, then the error. Cardinality: unknown, or infinite if
  /// the input's is. Throws Error{invalid_argument} for a scalar component, a negative size, and no
  /// size above 0.
  Dataset rebatch(std::int64_t size, BatchOptions options = {}) const;
  /// Cuts the rows of batches into new batches whose sizes are used in turn. A size of 0 makes an
  /// empty batch. The output ends with the last rows, and no empty batch follows them.
  Dataset rebatch(std::vector<std::int64_t> sizes, BatchOptions options = {}) const;
  /// Keeps the first of several elements that are equal in these components; by default in all of
  /// them. Equal means the same dtypes, shapes and bits. The stage keeps the values of each pass,
  /// so name small components. A restored run reads the pass again from its start. Cardinality:
  /// unknown. Throws Error{invalid_argument} for an unknown component.
  Dataset unique(std::vector<std::string> components = {}) const;
  /// Runs a state through the elements: `fn` returns the next state and the output element. It is
  /// called for one element after the other, on the order thread. Each pass begins with `initial`.
  /// Names and dtypes of the state must stay the same; shapes may change. If an element fails or
  /// `fn` throws, the state stays as it was. The state is not saved: a restored run repeats the
  /// pass from its start. Cardinality: the input's.
  Dataset scan(Element initial, ScanFn fn, ScanOptions options = {}) const;
  /// Drops elements at random so that the classes, counted from 0, come with the shares of
  /// `target`, which need not have the sum 1. Adds the class as the first component. With r(c) the
  /// target's share of class c divided by the input's, an element of c stays with the probability
  /// r(c) / max r. The stage decides by the seed, the epoch and the elements before. No element
  /// comes twice; tf.data may repeat one. A class out of range is the element's error. Cardinality:
  /// unknown. Throws Error{invalid_argument} for shares that are negative, not finite or all 0, for
  /// a class with a target that `initial` says never occurs, and if there is such a component.
  Dataset rejection_resample(KeyFn class_of, std::vector<double> target,
                             ResampleOptions options = {}) const;
  /// Leaves out elements that failed in an earlier stage, whatever the run's error policy is; after
  /// a batch stage, whole batches. They are counted in Stats::errors and, with `log_warning`,
  /// written to the log. Errors that end a run still come: a cancelled run, too little memory.
  /// Cardinality: unknown.
  Dataset ignore_errors(bool log_warning = false) const;
  /// Gives each window as a batch: every component gets a window of its own. Element j of window k
  /// is the input's element k * shift + j * stride; windows start while there is an element k *
  /// shift. An element is made once, however many windows hold it. A failed element keeps its
  /// number: its error comes once, and the windows that would hold it are left out. Cardinality:
  /// follows from the input's. Throws Error{invalid_argument} if size, shift or stride is below 1.
  Dataset window(std::int64_t size, WindowOptions options = {}) const;
  /// Makes a dataset of each window with `each` and gives these one after the other. `each` is
  /// called once with an empty window when the graph is built, to learn the spec; after that one
  /// thread calls it for each window. Its stages are part of the fingerprint. Random numbers within
  /// `each` differ from window to window. Cardinality: unknown.
  Dataset window(std::int64_t size, WindowFn each, WindowOptions options = {}) const;
  /// Gathers elements of equal key in windows and gives each window when it is full. Windows that
  /// are not full come at the end, in the order of their keys. Keys are computed in parallel. An
  /// element that fails, or whose key fails, is one error in its place, and windows lose nothing.
  /// The stage keeps the elements that wait. A saved state has a few bytes for each of them, and a
  /// restored run reads again from the oldest. Cardinality: unknown. Throws Error{invalid_argument}
  /// without `key`, and unless one of both sizes is given.
  Dataset group_by_window(KeyFn key, GroupOptions options) const;
  /// Keeps the elements of the first full pass in memory and replays them in later passes. The pass
  /// is full when the input has ended or has given as many elements as its cardinality says. A pass
  /// that stops before is dropped, and the log says so: for a part use `take(k).cache().repeat()`.
  /// The cache lives as long as the run. The stage keeps the elements: each takes 80 bytes, 128 for
  /// each component, and its values if they are text or above 48 bytes.
  ///
  /// The first pass delivers errors; later ones leave those elements out. Put a cache before
  /// `batch`, because it would keep the slots of batches. Put `shuffle` and random maps after it:
  /// it keeps what stages before it drew, and explain warns about that. Random numbers of stages
  /// after it differ from pass to pass. Cardinality: the input's.
  Dataset cache() const;
  /// Keeps the elements in a file, for later passes and for later runs. The first run that reaches
  /// the end writes the file, under the name `file`.partial before, so that it is complete or
  /// absent however the run ends. It is valid for this graph, for the data that the graph reads
  /// and, if the graph draws random numbers or makes datasets, for the seed. A file of another
  /// graph or of other data is replaced when the new one is complete; a warning names data that
  /// changed. A changed lambda can't be seen: change its name. With RunOptions::trust_data contents
  /// are not compared.
  ///
  /// One run writes at a time: another gets Error{unavailable} that names the writing process. The
  /// lock ends with its process. A file that is no cache is Error{invalid_argument}, and stays. A
  /// damaged record is an error in its place; a damaged index is Error{data_loss} when the file is
  /// opened. If the disk is full, the run logs this and continues without the file. The file holds
  /// no errors, and is not written if an element lacked memory. In memory are only the elements in
  /// transit and 24 bytes for each element.
  ///
  /// Order and random numbers are as with the cache in memory. A state that was saved while the
  /// file was written reads the input again from its start. One saved while it was read needs the
  /// file, or makes it again. Throws Error{invalid_argument} for an empty name.
  Dataset cache(std::string file) const;
  /// Keeps the elements as `cache(file)` does, in a folder that several graphs can share, with one
  /// file for each graph and its data.
  Dataset snapshot(std::string folder) const;
  /// Makes all batches equally large and their number independent of bad elements. Follows batches
  /// of one size, or stages behind them that leave the number of rows as it is. After a shard,
  /// every shard gives as many batches as the largest would without bad elements: a synchronous
  /// trainer needs this to take equal steps. Missing rows are zeros (empty texts) after
  /// `valid_rows` rows. Digests leave them out, and Stats counts them.
  ///
  /// Throws Error{invalid_argument} for rows of no fixed size, for batches of different numbers of
  /// rows, for an unknown or infinite number of elements, and for a shard that can't know those of
  /// the others. Between it and the shard there may be batch, padded_batch, map, shuffle, repeat,
  /// take, skip, cache, enumerate, scan, zip, concatenate, select, keep, drop and prefetch.
  Dataset pad_batches() const;
  /// Sets the number of batches to prepare ahead, if it follows a batch stage. With 0 or -1 the
  /// engine chooses the number, as it always does for single elements. Does not change the output.
  /// Keeps index and cardinality. Throws Error{invalid_argument} for a count below -1.
  Dataset prefetch(std::int64_t count = -1) const;

  /// @}

  /// @name Work stages: heavy and parallel
  /// @{

  /// Replaces each element by the result of `fn`, in parallel and in the order of the input.
  /// `MapCallable` lists the forms that `fn` may have; calls come from several threads at once. An
  /// exception that leaves `fn` becomes the element's error, which names the record and the stage.
  ///
  /// `fn` must give the same result for the same element and random numbers. The engine may call it
  /// again for an element that was made already: when memory runs out and the run steps back, or
  /// when work made ahead is dropped (docs/budget.md). The random numbers depend only on the seed,
  /// the epoch, the element and the map's place among the stages that draw.
  ///
  /// Cardinality: the input's. Keeps the index if it is ordered. Throws Error{invalid_argument} for
  /// an empty callable and options that contradict each other.
  template <MapCallable F>
  Dataset map(F fn, MapOptions options = {}) const {
    const bool ordered = options.ordered;
    return map_op(make_map_op(std::move(fn), resolve_adds(std::move(options), spec())), ordered);
  }
  /// Replaces elements by the results of a callable that takes many of them at once, for work that
  /// is too small to be called for each. Put it directly after `range`, `tensors` or order stages
  /// behind these, and before a `batch`: values then never exist one by one, and an element costs a
  /// few nanoseconds. When `fn` throws, it is called again for each element alone, to find the bad
  /// ones. All else is as for `map`.
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
  /// front of it. Batches stay batches. Keeps index and cardinality. Throws Error{invalid_argument}
  /// that lists the components, if one is missing or named twice, or if none is kept.
  Dataset keep(std::vector<std::string> components) const;
  /// Keeps all components but these, at no cost; all else is as for `keep`. A feed copies the
  /// remaining components to its devices: drop those that a tower does not need.
  Dataset drop(std::vector<std::string> components) const;
  /// Stacks `size` elements: every component gets the batch as its outermost dimension, whose size
  /// is also Element::valid_rows. Elements of different shapes are the batch's Error{mismatch},
  /// which names the component, both elements and both shapes. If components have a fixed size or
  /// are one text, a batch is a slot: memory for a whole batch that is used again, and into which
  /// the last op writes. Texts are views that keep their buffers alive. Other elements are copied
  /// once.
  ///
  /// Cardinality: n / size, rounded up, or down with `drop_remainder`. Throws
  /// Error{invalid_argument} for a size below 1. A size above 2^31 - 1, or a slot above the memory
  /// budget, is Error{resource_exhausted} when the run begins.
  Dataset batch(std::int64_t size, BatchOptions options = {}) const;
  /// Pads the components of `size` elements to one shape, then stacks them. It takes any size, such
  /// as one above the number of elements, for everything in one batch. The stage keeps the elements
  /// of the batch that is begun. An element that is longer than its padded shape, or of another
  /// rank, is the batch's Error{data_loss}. Cardinality: as for `batch`. Throws
  /// Error{invalid_argument} for a component of unknown rank without a shape, for another number of
  /// shapes or values than components, and for what is known not to fit.
  Dataset padded_batch(std::int64_t size, PaddedBatchOptions options = {}) const;
  /// Batches and pads elements of similar length: tf.data's bucket_by_sequence_length. A batch is
  /// full by its number of elements or by a token budget. Lengths are computed in parallel. The
  /// rest comes at the end, in the order of the buckets. The stage keeps the elements that wait, as
  /// `group_by_window` does. An element that exceeds `tokens` alone, or has a negative length, is
  /// its own error. Cardinality: unknown. Throws Error{invalid_argument} for bounds that are not
  /// positive or do not rise, and for options that contradict each other.
  Dataset bucket_by_length(BucketOptions options) const;
  /// Puts whole sequences together in rows of one length, so that little is padded. A sequence goes
  /// to the first open row that has room for it, else to a new one. If more than `open` rows would
  /// then be open, the oldest comes out. A full row comes out at once; the others come at the end
  /// in the order in which they were opened. Every component is a sequence of the element's length,
  /// and gets the shape [length, ...]. A sequence longer than a row is its own error. The stage
  /// keeps the sequences of open rows, as `group_by_window` does. Cardinality: unknown. Throws
  /// Error{invalid_argument} if `length` or `open` is below 1, for a component that is a scalar or
  /// holds texts, and for padding values that do not fit.
  Dataset pack(PackOptions options) const;
  /// Puts elements whose outermost dimension differs one after the other, in one slot. A component
  /// x of unknown length becomes x [total, ...] and x.row_splits i64 [rows + 1]: row r is
  /// x[splits[r]] up to, but not including, x[splits[r + 1]]. Components of fixed shape are stacked
  /// as in `batch`. The variable components of a batch share one buffer, in which each tensor but
  /// texts is aligned to 64 bytes. Cardinality: as for `batch`. Throws Error{invalid_argument} for
  /// a size below 1, and for a component of unknown rank or with another unknown dimension than the
  /// outermost.
  Dataset ragged_batch(std::int64_t size, BatchOptions options = {}) const;

  /// @}

  /// @name Looking at a graph, and running it
  /// @{

  /// Returns the spec of the elements.
  const Spec& spec() const;
  /// Returns the number of elements, kInfinite or kUnknown.
  std::int64_t cardinality() const;
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

  /// @}

  /// @name Stages of your own, and parts of an indexed input
  /// @{

  /// Calls `fn` with this dataset, as a stage of your own: any function from dataset to dataset.
  template <typename F>
  auto apply(F&& fn) const {
    return fn(*this);
  }

  /// Gives the records at these positions, in this order; a position may occur more than once.
  /// Keeps the index, which the input must have. Throws Error{invalid_argument} for a position past
  /// the end.
  Dataset select(std::vector<std::uint64_t> indices) const;
  /// Returns two disjoint datasets, the first with `share` of the elements, rounded. Both keep the
  /// index, which the input must have. A permutation decides; it depends on `seed` and on the
  /// number of random stages before the split in the graph that is run. Use both parts where that
  /// number is the same, or they may overlap. Throws Error{invalid_argument} for a share outside of
  /// [0, 1].
  std::pair<Dataset, Dataset> split_at(double share, std::uint64_t seed) const;

  /// @}

  /// Returns the last node of the graph.
  const NodePtr& node() const { return not_moved(node_, "dataset"); }

  /// @cond
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
  /// @endcond

 private:
  NodePtr node_;
};

/// Gives tuples of one element of each input, and ends with the shortest. Components stand side by
/// side, so their names must differ. If one element fails, the tuple is one error. Inputs behind
/// the one that ended are still asked once, as in tf.data. A tuple has the random numbers of its
/// first element. Keeps the index if all inputs have one. Cardinality: the smallest. Throws
/// Error{invalid_argument} for no inputs, and for equal names.
Dataset zip(const std::vector<Dataset>& inputs);
/// Draws each element from an input that is chosen at random by weight. An input that has ended is
/// left out from then on, unless `stop_on_empty`. Nothing comes of inputs with a weight of 0.
/// Cardinality: the sum over inputs with a weight; unknown with `stop_on_empty`, unless all of them
/// are infinite. Throws Error{invalid_argument} for no inputs, another number of weights, weights
/// that are negative or not finite, and specs that can't be reconciled.
Dataset sample_from(const std::vector<Dataset>& inputs, std::vector<double> weights,
                    MixOptions options = {});
/// Draws each element from an input that is chosen at random, with weights that may change during
/// the run. Each epoch draws a new mixture. It ends while all weights are 0. Cardinality: unknown.
Dataset sample_from(const std::vector<Dataset>& inputs, const MixWeights& weights,
                    MixOptions options = {});
/// Takes each element from the input that the next element of `choices`, one i64, names. Choosing
/// an exhausted input ends the dataset; if `stop_on_empty` is false, the choice is used up. When
/// all inputs have ended, the dataset ends. A choice out of range is Error{mismatch} in its place.
/// Cardinality: unknown. Throws Error{invalid_argument} for no inputs, for choices that are not one
/// i64 scalar, and for specs that can't be reconciled.
Dataset choose_from(const std::vector<Dataset>& inputs, const Dataset& choices,
                    bool stop_on_empty = true);

}  // namespace penstock
