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
#include <penstock/spec.h>

namespace penstock {

class Dataset;

struct ShardOptions {
  bool contiguous = false;  ///< false: keeps index % count == position (tf.data); true: one run of
                            ///< neighbours each
};

struct ShuffleOptions {
  /// Elements buffered, as in tf.data. 0: a perfect shuffle in O(1) memory; the input must have an
  /// index.
  std::uint64_t buffer = 0;
  /// Its own seed; by default the run's.
  std::optional<std::uint64_t> seed{};
  /// A new order at each epoch and repetition.
  bool reshuffle = true;
};

struct InterleaveOptions {
  int cycle = 16;  ///< datasets open at once; not the CPU count, because order must not depend on
                   ///< the machine
  int block = 1;   ///< elements taken in a row from one
};

struct BatchOptions {
  bool drop_remainder =
      false;  ///< drop the last batch if it is short; the batch dimension is then known
};

struct PaddedBatchOptions {
  /// Shape of each component in order, -1: as long as the longest of the batch. Empty: all -1 where
  /// the spec is unknown.
  std::vector<Shape> shapes{};
  /// Value for each component in order; empty: 0.
  std::vector<double> values{};
  bool drop_remainder = false;
};

struct MixOptions {
  std::optional<std::uint64_t> seed{};
  /// True: end when an exhausted input is drawn. False: go on with the others.
  bool stop_on_empty = false;
};

/// Weights of a mixture that may be changed while it runs: a record of which hold from which draw
/// on. Copies share the record. Thread-safe.
///
/// What has been drawn already is never changed, so that a run is a function of its graph, its seed
/// and this record. A saved state holds what counts from its epoch on; the graph that is restored
/// begins with the weights that this one began with.
class MixWeights {
 public:
  struct Change {
    std::uint64_t epoch = 0;
    std::uint64_t draw = 0;  ///< of the mixture, counted in each pass
    std::vector<double> weights;

    friend bool operator==(const Change&, const Change&) = default;
  };

  /// From the first draw on. Throws Error{invalid_argument}, as all members, for no weights or
  /// one that is negative or not finite.
  explicit MixWeights(std::vector<double> weights);
  /// A record, or a plan: the first change must be of epoch 0 and draw 0, and they must rise.
  explicit MixWeights(std::vector<Change> changes);

  /// From the first draw on that no run has made yet; elements are drawn ahead of their delivery.
  /// Returns the change. Throws also for another number of weights.
  Change set(std::vector<double> weights) const;
  std::vector<Change> changes() const;

  class Record;
  const std::shared_ptr<Record>& record() const noexcept { return record_; }

 private:
  std::shared_ptr<Record> record_;
};

/// A dataset made of an element, for flat_map and interleave.
using FlatMapFn = std::function<Dataset(const Element&)>;
/// A number of an element: its class, its group or its length. Called from several threads.
using KeyFn = std::function<std::int64_t(const Element&)>;
/// What becomes of a window, which is a dataset of its elements. Must depend on nothing else.
using WindowFn = std::function<Dataset(const Dataset& window)>;
/// The same for the window of a key.
using GroupFn = std::function<Dataset(std::int64_t key, const Dataset& window)>;
/// The next state and the output, of a state and an element. Tensors of the state that need memory
/// of their own must be replaced, not written to.
using ScanFn = std::function<std::pair<Element, Element>(const Element& state, Element element)>;

struct WindowOptions {
  std::int64_t shift = 0;       ///< elements between the starts of two windows; 0: the size
  std::int64_t stride = 1;      ///< elements between two of a window
  bool drop_remainder = false;  ///< drop windows that are short
};

struct GroupOptions {
  std::int64_t size = 0;  ///< elements of a window
  /// Elements of a window of this key, instead of `size`; at least 1.
  std::function<std::int64_t(std::int64_t key)> size_of{};
  /// What becomes of a window; by default it is batched.
  GroupFn reduce{};
  /// The spec of what `reduce` makes; by default that of `reduce(0, an empty window)`.
  std::optional<Spec> output{};
  /// Names the callables in errors, explain and the fingerprint: change it with them.
  std::string name = "key";
};

struct BucketOptions {
  /// The length of an element; by default `length_of(the first component)`.
  KeyFn length{};
  /// Names `length` in errors, explain and the fingerprint.
  std::string name = "length";
  /// Bucket i holds bounds[i-1] <= length < bounds[i], so that there is one more than bounds.
  std::vector<std::int64_t> bounds{};
  /// Elements of a batch, for each bucket. Or else:
  std::vector<std::int64_t> sizes{};
  /// A batch has as many elements as fit when all are padded to the longest, in units of length.
  std::int64_t tokens = 0;
  bool pad_to_boundary = false;  ///< pad unknown dimensions to bounds[i] - 1
  bool no_padding = false;       ///< shapes must agree within a batch
  bool drop_remainder = false;   ///< drop what is left in the buckets at the end
  std::vector<Shape> shapes{};   ///< as in PaddedBatchOptions
  std::vector<double> values{};  ///< as in PaddedBatchOptions
};

struct PackOptions {
  std::int64_t length = 0;  ///< of a row
  std::int64_t open = 16;   ///< rows that are being filled at a time
  /// What each component is padded with, in order; empty: 0.
  std::vector<double> values{};
  std::string segment = "segment";    ///< component that counts a row's sequences from 1
  std::string position = "position";  ///< component that counts within a sequence from 0
};

struct ScanOptions {
  /// Names the callable in errors, explain and the fingerprint: change it with it.
  std::string name = "scan";
  /// The output's spec; by default the input's. Every result is checked against it.
  std::optional<Spec> output{};
};

struct ResampleOptions {
  /// The input's distribution if it is known; else it is estimated from what has passed.
  std::vector<double> initial{};
  std::optional<std::uint64_t> seed{};
  /// The i64 component that the class is added as, in front of the others.
  std::string component = "class";
  /// Names the callable in errors, explain and the fingerprint: change it with it.
  std::string name = "class_of";
};

/// The length of a component: its outermost dimension, or the bytes of a scalar byte string. Empty:
/// of the first component. Throws Error{invalid_argument} for any other scalar.
KeyFn length_of(std::string component = {});

}  // namespace penstock
