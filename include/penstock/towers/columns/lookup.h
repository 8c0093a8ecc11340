// Lookup of table rows by the ids of a column.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>

#include <penstock/towers/layer.h>
#include <penstock/towers/model.h>

#include <penstock/towers/columns/column.h>

namespace penstock::towers {

/// A column's ids in a batch: a fixed number for each row, or ragged. A view.
struct BatchIds {
  std::span<const std::int64_t> ids{};     ///< negative: missing
  std::span<const float> weights{};        ///< one for each id, or empty
  std::span<const std::int64_t> splits{};  ///< where each row begins; empty: see `each`
  std::int64_t each = 0;                   ///< without splits: ids in each row
  std::int64_t rows = 0;                   ///< of the batch

  /// Returns the position of a row's first id.
  std::int64_t begin(std::int64_t row) const { return splits.empty() ? row * each : at(row); }
  /// Returns the position behind its last id.
  std::int64_t end(std::int64_t row) const { return begin(row + 1); }

 private:
  std::int64_t at(std::int64_t row) const { return splits[static_cast<std::size_t>(row)]; }
};

/// Throws Error{not_found} for a column that the batch does not have.
BatchIds ids_of(const Batch& batch, const Column& categorical);
/// Throws Error{invalid_argument} unless the device is a host device, since columns are computed
/// there.
void require_host(const Scope& scope);

/// The tables of a model's columns. A table that several columns share is made once on a tower.
class Tables {
 public:
  /// Throws as `require_host` does.
  explicit Tables(const Scope& scope) : scope_(scope) { require_host(scope); }
  /// Returns the table of that name. Makes it on the first call.
  Variable& get(const std::string& name, const Shape& shape, const VariableOptions& options);

 private:
  const Scope scope_;
  std::set<std::string> made_;
};

/// A lookup of the table's rows that an example names. It combines them as TensorFlow's
/// safe_embedding_lookup_sparse does. Negative ids are left out. Ids without a weight above 0 are
/// left out too, unless the rows are summed up. An example without ids gives zeros. On host
/// devices.
class Lookup {
 public:
  /// `table`: [buckets,width], by rows.
  Lookup(ColumnPtr categorical, Variable& table, Combiner combiner)
      : column_(std::move(categorical)), table_(&table), combiner_(combiner) {}

  /// Returns the column whose ids it takes.
  const Column& column() const noexcept { return *column_; }
  /// Returns the numbers in a row of the table.
  std::int64_t width() const noexcept { return table_->value.dim(1); }
  /// Adds the results to rows of `out`, which are `stride` apart. The batch must stay alive until
  /// `backward` has returned. Throws Error{invalid_argument} for an id that the table does not
  /// have.
  void add_to(const Batch& batch, float* out, std::int64_t stride);
  /// The same for each id of a sequence by itself: step s of an example is `step_stride` after step
  /// s - 1.
  void add_steps_to(const Batch& batch, float* out, std::int64_t stride, std::int64_t step_stride);
  /// Adds to the table's gradient the part that belongs to the rows of `gradient`, which are laid
  /// out as `out` was.
  void backward(const float* gradient, std::int64_t stride);

 private:
  void begin(const Batch& batch);
  void check_id(std::int64_t id) const;
  float scale_of(std::int64_t begin, std::int64_t end) const;
  /// Returns the weight of the id at `i`; 0 if it is left out.
  float weight_of(std::int64_t i) const;

  ColumnPtr column_;
  Variable* table_;
  Combiner combiner_;
  BatchIds ids_;
  std::int64_t rows_ = 0;         // rows that hold samples
  std::int64_t step_stride_ = 0;  // 0: ids are combined
};

}  // namespace penstock::towers
