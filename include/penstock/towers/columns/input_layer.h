// Layers that turn columns into the input of a network.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <penstock/towers/columns/lookup.h>

namespace penstock::towers {

/// The concatenation of dense columns, sorted by name, as tf.compat.v1.feature_column.input_layer:
/// numbers unchanged, buckets and indicators as counts of each id, and embeddings. Its variables
/// are, for each embedding, `<name>/embedding_weights` [buckets,dimension], by rows. It is not a
/// Layer, because it takes a batch. Used by the tower's thread.
class InputLayer {
 public:
  /// Throws Error{invalid_argument} that names a column that is not dense, is a sequence, or occurs
  /// twice.
  InputLayer(Tables& tables, std::vector<ColumnPtr> columns);

  /// Returns the numbers in a row.
  std::int64_t width() const noexcept { return width_; }
  /// Returns [n,width]; rows of padding are zeros. The batch must stay alive until `backward` has
  /// returned.
  const Array& forward(const Batch& batch);
  /// Adds to the gradients of the tables.
  void backward(const Array& gradient);

 private:
  struct Part {
    ColumnPtr column;
    std::int64_t first = 0;  // index of its first number in a row
    std::optional<Lookup> lookup{};
  };

  void put_numbers(const Part& part, const Batch& batch);
  void put_counts(const Part& part, const Batch& batch);

  std::vector<Part> parts_;
  std::int64_t width_ = 0;
  Array out_;
};

/// The same for sequences, as tf.keras.experimental.SequenceFeatures: a row for each step, and
/// zeros after an example's last step. Columns are numeric, or indicators or embeddings of
/// sequences.
class SequenceLayer {
 public:
  /// Throws Error{invalid_argument} that names a column that is not a dense sequence, or occurs
  /// twice.
  SequenceLayer(Tables& tables, std::vector<ColumnPtr> columns);

  /// Returns the numbers in a step.
  std::int64_t width() const noexcept { return width_; }
  /// Returns [n,steps,width], with as many steps as the longest example has. Throws Error{mismatch}
  /// that names two columns for which an example has different numbers of steps.
  const Array& forward(const Batch& batch);
  /// Returns the number of steps of each row in the last `forward`.
  std::span<const std::int64_t> lengths() const noexcept { return lengths_; }
  /// Adds to the gradients of the tables.
  void backward(const Array& gradient);

 private:
  struct Part {
    ColumnPtr column;
    std::int64_t first = 0;
    std::optional<Lookup> lookup{};
  };

  void measure(const Batch& batch);
  void put(Part& part, const Batch& batch);

  std::vector<Part> parts_;
  std::int64_t width_ = 0;
  std::vector<std::int64_t> lengths_;
  Array out_;
};

/// A weighted sum over columns, as tf.compat.v1.feature_column.linear_model: weighted numbers, and
/// the sums of the weights of ids. Its variables are `<name>/weights` [buckets or width,units],
/// which begin as zeros, and bias_weights [units].
class LinearModel {
 public:
  /// Columns must be numeric or categorical. Throws Error{invalid_argument} that names one that is
  /// not, or occurs twice.
  LinearModel(Tables& tables, std::vector<ColumnPtr> columns, std::int64_t units,
              Combiner combiner = Combiner::sum);
  /// Returns [n,units].
  const Array& forward(const Batch& batch);
  /// Adds to the gradients of the weights.
  void backward(const Array& gradient);

 private:
  struct Numbers {
    ColumnPtr column;
    Variable* weights;
    Array values{};  // of the batch
  };

  std::int64_t units_;
  std::vector<Lookup> lookups_;
  std::vector<Numbers> numbers_;
  Variable* bias_;
  Array out_;
  std::int64_t rows_ = 0;
};

/// Returns the lookup of an embedding column, whose table exists afterwards.
Lookup embedding_lookup(Tables& tables, const Column& column);
/// Returns the columns sorted by name. Throws Error{invalid_argument} that names one that occurs
/// twice.
std::vector<ColumnPtr> sorted_columns(std::vector<ColumnPtr> columns);
/// Returns the number of rows in a batch, which may be ragged.
std::int64_t rows_of(const Batch& batch, const Column& column);

}  // namespace penstock::towers
