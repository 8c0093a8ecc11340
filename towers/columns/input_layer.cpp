#include <penstock/towers/columns/input_layer.h>

#include <algorithm>
#include <cmath>

#include "towers/columns/features.h"

namespace penstock::towers {
namespace {

using Kind = Column::Kind;

}  // namespace

Lookup embedding_lookup(Tables& tables, const Column& column) {
  const EmbeddingOptions& options = column.embedding;
  const Initializer initializer = options.initializer.value_or(
      Initializer::truncated_normal(1 / std::sqrt(static_cast<float>(options.dimension))));
  Variable& table =
      tables.get(column.table + "/embedding_weights", {column.source->buckets, options.dimension},
                 {initializer, options.trainable, true});
  return {column.source, table, options.combiner};
}

std::vector<ColumnPtr> sorted_columns(std::vector<ColumnPtr> columns) {
  std::ranges::sort(columns, {}, [](const ColumnPtr& column) { return column->name; });
  for (std::size_t i = 1; i < columns.size(); ++i)
    if (columns[i - 1]->name == columns[i]->name) refuse_column(columns[i]->name, "is used twice");
  return columns;
}

std::int64_t rows_of(const Batch& batch, const Column& column) {
  if (column.kind == Kind::indicator || column.kind == Kind::embedding)
    return ids_of(batch, *column.source).rows;
  if (column.is_categorical()) return ids_of(batch, column).rows;
  return batch.shape(column.name)[0];
}

InputLayer::InputLayer(Tables& tables, std::vector<ColumnPtr> columns) {
  if (columns.empty()) refuse_column("of an input layer", "there is none");
  for (const ColumnPtr& column : sorted_columns(std::move(columns))) {
    if (!column->is_dense())
      refuse_column(column->name,
                    "has ids: an input layer takes an indicator or an embedding of it");
    if (column->sequence)
      refuse_column(column->name, "is a sequence, which an input layer does not take");
    Part& part = parts_.emplace_back(Part{column, width_});
    if (column->kind == Kind::embedding) part.lookup = embedding_lookup(tables, *column);
    width_ += column->width();
  }
}

const Array& InputLayer::forward(const Batch& batch) {
  out_.resize({rows_of(batch, *parts_.front().column), width_});
  out_.fill(0);
  for (Part& part : parts_) {
    if (part.lookup) {
      part.lookup->add_to(batch, out_.data() + part.first, width_);
    } else if (part.column->kind == Kind::numeric) {
      put_numbers(part, batch);
    } else {
      put_counts(part, batch);
    }
  }
  return out_;
}

void InputLayer::put_numbers(const Part& part, const Batch& batch) {
  const Array numbers = batch.f32(part.column->name);
  const std::int64_t each = part.column->width();
  const std::int64_t rows = std::min(batch.valid_rows(), numbers.dim(0));
  for (std::int64_t row = 0; row < rows; ++row)
    std::copy_n(numbers.data() + row * each, each, out_.data() + row * width_ + part.first);
}

void InputLayer::put_counts(const Part& part, const Batch& batch) {
  const Column& column = *part.column;
  const BatchIds ids = ids_of(batch, column.kind == Kind::indicator ? *column.source : column);
  const std::int64_t rows = std::min(batch.valid_rows(), ids.rows);
  for (std::int64_t row = 0; row < rows; ++row) {
    float* const to = out_.data() + row * width_ + part.first;
    for (std::int64_t i = ids.begin(row); i < ids.end(row); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const std::int64_t id = ids.ids[at];
      if (id >= 0 && id < column.width()) to[id] += ids.weights.empty() ? 1 : ids.weights[at];
    }
  }
}

void InputLayer::backward(const Array& gradient) {
  // The last part comes first, as in layers, so that its gradient is exchanged first.
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part)
    if (part->lookup) part->lookup->backward(gradient.data() + part->first, width_);
}

LinearModel::LinearModel(Tables& tables, std::vector<ColumnPtr> columns, std::int64_t units,
                         Combiner combiner)
    : units_(units) {
  for (const ColumnPtr& column : sorted_columns(std::move(columns))) {
    if (column->kind == Kind::indicator || column->kind == Kind::embedding)
      refuse_column(column->name, "is already dense: a linear model takes its source column");
    if (column->sequence)
      refuse_column(column->name, "is a sequence, which a linear model does not take");
    const bool has_ids = column->is_categorical();
    Variable& weights =
        tables.get(column->name + "/weights", {has_ids ? column->buckets : column->width(), units},
                   {{}, true, has_ids});
    if (has_ids) {
      lookups_.emplace_back(column, weights, combiner);
    } else {
      numbers_.push_back({column, &weights});
    }
  }
  if (lookups_.empty() && numbers_.empty()) refuse_column("of a linear model", "there is none");
  bias_ = &tables.get("bias_weights", {units}, {});
}

const Array& LinearModel::forward(const Batch& batch) {
  const std::int64_t all =
      rows_of(batch, lookups_.empty() ? *numbers_.front().column : lookups_.front().column());
  rows_ = std::min(batch.valid_rows(), all);
  out_.resize({all, units_});
  out_.fill(0);
  for (std::int64_t row = 0; row < rows_; ++row)
    std::copy_n(bias_->value.data(), units_, out_.data() + row * units_);
  for (Lookup& lookup : lookups_) lookup.add_to(batch, out_.data(), units_);
  for (Numbers& numbers : numbers_) {
    numbers.values = batch.f32(numbers.column->name);
    const std::int64_t each = numbers.values.row_size();
    for (std::int64_t row = 0; row < rows_; ++row) {
      const float* const from = numbers.values.data() + row * each;
      for (std::int64_t i = 0; i < each; ++i)
        for (std::int64_t u = 0; u < units_; ++u)
          out_.data()[row * units_ + u] += from[i] * numbers.weights->value.data()[i * units_ + u];
    }
  }
  return out_;
}

void LinearModel::backward(const Array& gradient) {
  const auto begin = [](Variable& variable) {
    if (variable.accumulate() == 0) variable.gradient.fill(0);
  };
  begin(*bias_);
  for (std::int64_t row = 0; row < rows_; ++row)
    for (std::int64_t u = 0; u < units_; ++u)
      bias_->gradient.data()[u] += gradient.data()[row * units_ + u];
  bias_->added();
  for (auto numbers = numbers_.rbegin(); numbers != numbers_.rend(); ++numbers) {
    begin(*numbers->weights);
    float* const to = numbers->weights->gradient.data();
    const std::int64_t each = numbers->values.row_size();
    for (std::int64_t row = 0; row < rows_; ++row) {
      const float* const from = numbers->values.data() + row * each;
      for (std::int64_t i = 0; i < each; ++i)
        for (std::int64_t u = 0; u < units_; ++u)
          to[i * units_ + u] += from[i] * gradient.data()[row * units_ + u];
    }
    numbers->weights->added();
  }
  for (auto lookup = lookups_.rbegin(); lookup != lookups_.rend(); ++lookup)
    lookup->backward(gradient.data(), units_);
}

}  // namespace penstock::towers
