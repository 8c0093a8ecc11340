#include <algorithm>

#include <penstock/error.h>

#include <penstock/towers/columns/input_layer.h>
#include "towers/columns/features.h"

namespace penstock::towers {
namespace {

using Kind = Column::Kind;

/// The steps of each row of a numeric sequence, as places in its values.
struct Steps {
  std::span<const std::int64_t> splits{};
  std::int64_t each = 0, rows = 0;

  std::int64_t begin(std::int64_t row) const {
    return splits.empty() ? row * each : splits[static_cast<std::size_t>(row)];
  }
};

Steps steps_of(const Batch& batch, const Column& numeric) {
  const Shape shape = batch.shape(numeric.name);
  if (shape.rank() == 3) return {{}, shape[1], shape[0]};
  const auto splits = batch.i64(numeric.name + ".row_splits");
  return {splits, 0, static_cast<std::int64_t>(splits.size()) - 1};
}

/// Returns the length of a row. With a fixed number of places, it ends at the last one with a
/// value.
std::int64_t length_of(const BatchIds& ids, std::int64_t row) {
  std::int64_t end = ids.end(row);
  while (ids.splits.empty() && end > ids.begin(row) &&
         ids.ids[static_cast<std::size_t>(end - 1)] < 0)
    --end;
  return end - ids.begin(row);
}

}  // namespace

SequenceLayer::SequenceLayer(Tables& tables, std::vector<ColumnPtr> columns) {
  if (columns.empty()) refuse_column("of a sequence layer", "there is none");
  for (const ColumnPtr& column : sorted_columns(std::move(columns))) {
    if (column->is_categorical())
      refuse_column(column->name,
                    "has ids: a sequence layer takes an indicator or an embedding of it");
    if (!column->sequence) refuse_column(column->name, "is not a sequence");
    Part& part = parts_.emplace_back(Part{column, width_});
    if (column->kind == Kind::embedding) part.lookup = embedding_lookup(tables, *column);
    width_ += column->kind == Kind::numeric ? column->values : column->width();
  }
}

void SequenceLayer::measure(const Batch& batch) {
  for (const Part& part : parts_) {
    const bool numeric = part.column->kind == Kind::numeric;
    const Steps steps = numeric ? steps_of(batch, *part.column) : Steps{};
    const BatchIds ids = numeric ? BatchIds{} : ids_of(batch, *part.column->source);
    const std::int64_t all = numeric ? steps.rows : ids.rows;
    const std::int64_t rows = std::min(all, batch.valid_rows());
    const bool is_first = &part == parts_.data();
    if (is_first) lengths_.assign(static_cast<std::size_t>(all), 0);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t length =
          numeric ? steps.begin(row + 1) - steps.begin(row) : length_of(ids, row);
      std::int64_t& known = lengths_[static_cast<std::size_t>(row)];
      if (is_first) known = length;
      if (known != length)
        throw Error(ErrorCode::mismatch,
                    "row " + std::to_string(row) + " has " + std::to_string(known) +
                        " steps of column " + parts_.front().column->name + ", and " +
                        std::to_string(length) + " of column " + part.column->name);
    }
  }
}

const Array& SequenceLayer::forward(const Batch& batch) {
  measure(batch);
  const std::int64_t longest = lengths_.empty() ? 0 : *std::ranges::max_element(lengths_);
  out_.resize({static_cast<std::int64_t>(lengths_.size()), longest, width_});
  out_.fill(0);
  for (Part& part : parts_) put(part, batch);
  return out_;
}

void SequenceLayer::put(Part& part, const Batch& batch) {
  const std::int64_t stride = out_.dim(1) * width_;
  float* const out = out_.data() + part.first;
  if (part.lookup) return part.lookup->add_steps_to(batch, out, stride, width_);
  const auto for_each_step = [&](const auto& place) {
    for (std::size_t row = 0; row < lengths_.size(); ++row)
      for (std::int64_t s = 0; s < lengths_[row]; ++s) {
        const auto at = static_cast<std::int64_t>(row);
        place(at, s, out + at * stride + s * width_);
      }
  };
  if (part.column->kind == Kind::numeric) {
    const Steps steps = steps_of(batch, *part.column);
    const Array values = batch.f32(part.column->name);
    const std::int64_t each = part.column->values;
    for_each_step([&](std::int64_t row, std::int64_t s, float* to) {
      std::copy_n(values.data() + (steps.begin(row) + s) * each, each, to);
    });
    return;
  }
  const BatchIds ids = ids_of(batch, *part.column->source);
  for_each_step([&](std::int64_t row, std::int64_t s, float* to) {
    const auto at = static_cast<std::size_t>(ids.begin(row) + s);
    const std::int64_t id = ids.ids[at];
    if (id >= 0 && id < part.column->width()) to[id] += ids.weights.empty() ? 1 : ids.weights[at];
  });
}

void SequenceLayer::backward(const Array& gradient) {
  const std::int64_t stride = gradient.dim(1) * width_;
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part)
    if (part->lookup) part->lookup->backward(gradient.data() + part->first, stride);
}

}  // namespace penstock::towers
