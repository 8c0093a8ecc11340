// Options of the stages of a dataset.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <penstock/element.h>
#include <penstock/error.h>
#include <penstock/spec.h>

namespace penstock {

class Dataset;

/// The options of `shard`.
struct ShardOptions {
  /// False: a shard keeps the elements whose position modulo count is its index (tf.data). True:
  /// each shard is one run of neighbours: of n elements those from index * n / count up to, but not
  /// including, (index + 1) * n / count. The input must then have an index.
  bool contiguous = false;
};

/// The options of `shuffle`.
struct ShuffleOptions {
  /// Elements buffered, as in tf.data. 0: a perfect shuffle in O(1) memory; the input must have an
  /// index. 1 changes nothing, and a buffer as large as the input is uniform; one between is not.
  /// The buffer holds references of 32 bytes where the input allows it, else values. From the
  /// 1,025th value on each counts 800 bytes besides its tensors; in an open dataset of `interleave`
  /// from the 65th on.
  ///
  /// The order of a perfect shuffle of up to 4,096 elements is drawn uniformly (Fisher-Yates).
  /// Above that it is a keyed pseudorandom permutation: a balanced Feistel network of six rounds.
  std::uint64_t buffer = 0;
  /// The stage's own seed; by default the run's. Two datasets with the same seed in the same place
  /// of their graphs have the same order.
  std::optional<std::uint64_t> seed{};
  /// True: a new order at each epoch and repetition. False: always the same.
  bool reshuffle = true;
};

/// The options of `interleave`.
struct InterleaveOptions {
  /// Datasets open at once, from 1 to 2^20. This is not the CPU count, because the order must not
  /// depend on the machine.
  int cycle = 16;
  int block = 1;  ///< elements taken in a row from one dataset, at least 1
};

/// The options of `batch`.
struct BatchOptions {
  /// True: drops the last batch if it is short, so that the batch dimension is known.
  bool drop_remainder = false;
};

/// The options of `padded_batch`.
struct PaddedBatchOptions {
  /// The shape of each component in order. -1: as long as the longest of the batch, so that lengths
  /// differ between batches. Empty: the specs of the components, -1 where these are unknown.
  std::vector<Shape> shapes{};
  /// The padding value of each component in order; empty: 0, and the empty text.
  std::vector<double> values{};
  bool drop_remainder = false;  ///< as in BatchOptions
};

/// The options of `sample_from`.
struct MixOptions {
  /// The stage's own seed; by default the run's.
  std::optional<std::uint64_t> seed{};
  /// True: ends when an exhausted input is drawn. False: continues with the others.
  bool stop_on_empty = false;
};

/// Weights of a mixture that may change while it runs: a record of the weights and of the draws
/// from which they hold. Copies share the record. Thread-safe.
///
/// Draws that were made never change, so a run is a function of its graph, its seed and this
/// record. A saved state holds the changes that count from its epoch on. To restore it, begin the
/// graph with the weights that the saved run began with.
class MixWeights {
 public:
  /// A change of weights.
  struct Change {
    std::uint64_t epoch = 0;      ///< counted from 0
    std::uint64_t draw = 0;       ///< of the mixture, counted in each pass
    std::vector<double> weights;  ///< of the inputs, in order

    friend bool operator==(const Change&, const Change&) = default;
  };

  /// Makes a record whose weights hold from the first draw on. All members throw
  /// Error{invalid_argument} for no weights, and for a weight that is negative or not finite.
  explicit MixWeights(std::vector<double> weights);
  /// Makes a record, or a plan, of changes. The first must be of epoch 0 and draw 0, and they must
  /// rise.
  explicit MixWeights(std::vector<Change> changes);

  /// Changes the weights from the first draw that no run has made yet; elements are drawn ahead of
  /// their delivery. Returns the change. Also throws for another number of weights.
  Change set(std::vector<double> weights) const;
  /// Returns all changes so far. To repeat a run, begin it with weights made of these.
  std::vector<Change> changes() const;

  class Record;
  /// For the library.
  const std::shared_ptr<Record>& record() const { return not_moved(record_, "record of weights"); }

 private:
  std::shared_ptr<Record> record_;
};

/// A callable that makes a dataset of an element, for flat_map and interleave.
using FlatMapFn = std::function<Dataset(const Element&)>;
/// A callable that returns a number of an element: its class, its group or its length. Called from
/// several threads.
using KeyFn = std::function<std::int64_t(const Element&)>;
/// A callable that makes a dataset of a window, which is a dataset of its elements. It must depend
/// on nothing else.
using WindowFn = std::function<Dataset(const Dataset& window)>;
/// A callable that makes a dataset of the window of a key. It must depend on nothing else.
using GroupFn = std::function<Dataset(std::int64_t key, const Dataset& window)>;
/// A callable that returns the next state and the output for a state and an element. If a tensor of
/// the state needs memory of its own, replace it; do not write to it.
using ScanFn = std::function<std::pair<Element, Element>(const Element& state, Element element)>;

/// The options of `window`.
struct WindowOptions {
  std::int64_t shift = 0;       ///< elements between the starts of two windows; 0: the size
  std::int64_t stride = 1;      ///< elements between two neighbours of a window
  bool drop_remainder = false;  ///< drops windows that are short
};

/// The options of `group_by_window`. Set `size` or `size_of`, not both, and not none.
struct GroupOptions {
  std::int64_t size = 0;  ///< elements of a window
  /// Returns the elements of a window of this key; at least 1. Instead of `size`.
  std::function<std::int64_t(std::int64_t key)> size_of{};
  /// Makes a dataset of a window. By default the window is batched.
  GroupFn reduce{};
  /// The spec of the datasets that `reduce` makes; by default that of `reduce(0, an empty window)`.
  std::optional<Spec> output{};
  /// The name of the callables in errors, explain and the fingerprint: change it with them.
  std::string name = "key";
};

/// The options of `bucket_by_length`. Set `sizes` or `tokens`, not both.
struct BucketOptions {
  /// Returns the length of an element; by default `length_of(the first component)`.
  KeyFn length{};
  /// The name of `length` in errors, explain and the fingerprint.
  std::string name = "length";
  /// Bucket i holds bounds[i-1] <= length < bounds[i], so there is one more bucket than bounds.
  std::vector<std::int64_t> bounds{};
  /// Elements of a batch, for each bucket.
  std::vector<std::int64_t> sizes{};
  /// Instead of `sizes`: a batch has as many elements as fit when all are padded to the longest, in
  /// units of length.
  std::int64_t tokens = 0;
  /// True: pads unknown dimensions to bounds[i] - 1. A length not below the last bound is the
  /// element's error.
  bool pad_to_boundary = false;
  bool no_padding = false;      ///< shapes must agree within a batch; with no option of padding
  bool drop_remainder = false;  ///< drops the rest in the buckets at the end
  /// Batches of a bucket that come one after another, so that a feed of so many towers gives each
  /// of them (FeedMode::per_tower) a batch of the same bucket at every step. A bucket gives nothing
  /// until it has a batch for each tower. At the end, the rest of a bucket is divided into so many
  /// batches, or dropped if it has fewer elements. A batch that fails is missing in its round, and
  /// later steps then have batches of two buckets. Only with `sizes`.
  int towers = 1;
  std::vector<Shape> shapes{};   ///< as in PaddedBatchOptions
  std::vector<double> values{};  ///< as in PaddedBatchOptions
};

/// The options of `pack`.
struct PackOptions {
  std::int64_t length = 0;  ///< of a row
  std::int64_t open = 16;   ///< rows that are filled at a time
  /// The padding value of each component in order; empty: 0.
  std::vector<double> values{};
  /// The i32 component that counts a row's sequences from 1, and is 0 at padding.
  std::string segment = "segment";
  std::string position = "position";  ///< i32 component that counts within a sequence from 0
};

/// The options of `scan`.
struct ScanOptions {
  /// The name of the callable in errors, explain and the fingerprint: change it with the callable.
  std::string name = "scan";
  /// The output's spec; by default the input's. Every result is checked against it.
  std::optional<Spec> output{};
};

/// The options of `rejection_resample`.
struct ResampleOptions {
  /// The shares of the input's classes, if you know them; the sum need not be 1. Empty: the stage
  /// takes those of the elements so far, without classes that have not occurred yet.
  std::vector<double> initial{};
  /// The stage's own seed; by default the run's.
  std::optional<std::uint64_t> seed{};
  /// The i64 component that holds the class. It is added before the others.
  std::string component = "class";
  /// The name of the callable in errors, explain and the fingerprint: change it with the callable.
  std::string name = "class_of";
};

/// Returns a callable for the length of a component: its outermost dimension, or the bytes of a
/// scalar byte string. Empty: of the first component. The callable throws Error{mismatch} for any
/// other scalar.
KeyFn length_of(std::string component = {});

}  // namespace penstock
