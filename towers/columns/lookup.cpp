#include <penstock/towers/columns/lookup.h>

#include <algorithm>
#include <cmath>

#include <penstock/error.h>

namespace penstock::towers {

BatchIds ids_of(const Batch& batch, const Column& categorical) {
  BatchIds found;
  const std::string& name = categorical.name;
  found.ids = batch.i64(name);
  if (batch.shape(name).rank() == 1) {
    found.splits = batch.i64(name + ".row_splits");
    found.rows = static_cast<std::int64_t>(found.splits.size()) - 1;
  } else {
    found.rows = batch.shape(name)[0];
    found.each = batch.shape(name)[1];
  }
  if (categorical.kind == Column::Kind::weighted) {
    const Array weights = batch.f32(name + ".weights");
    found.weights = {weights.data(), weights.size()};
  }
  return found;
}

void require_host(const Scope& scope) {
  if (scope.gpu() != nullptr)
    throw Error(ErrorCode::invalid_argument,
                "models over feature columns are computed on host devices only");
}

Variable& Tables::get(const std::string& name, const Shape& shape, const VariableOptions& options) {
  const bool is_new = made_.insert(name).second;
  return (is_new ? scope_ : scope_.reuse()).get(name, shape, options);
}

void Lookup::begin(const Batch& batch) {
  ids_ = ids_of(batch, *column_);
  rows_ = std::min(batch.valid_rows(), ids_.rows);
  table_->read(ids_.ids);
}

void Lookup::check_id(std::int64_t id) const {
  if (id >= table_->value.dim(0))
    throw Error(ErrorCode::invalid_argument, "column " + column_->name + ": id " +
                                                 std::to_string(id) + " is not one of " +
                                                 std::to_string(table_->value.dim(0)));
}

float Lookup::weight_of(std::int64_t i) const {
  const auto at = static_cast<std::size_t>(i);
  if (ids_.ids[at] < 0) return 0;
  const float weight = ids_.weights.empty() ? 1 : ids_.weights[at];
  return weight > 0 || combiner_ == Combiner::sum ? weight : 0;
}

float Lookup::scale_of(std::int64_t begin, std::int64_t end) const {
  if (combiner_ == Combiner::sum) return 1;
  float sum = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    const float weight = weight_of(i);
    sum += combiner_ == Combiner::mean ? weight : weight * weight;
  }
  if (sum == 0) return 0;
  return 1 / (combiner_ == Combiner::mean ? sum : std::sqrt(sum));
}

void Lookup::add_to(const Batch& batch, float* out, std::int64_t stride) {
  begin(batch);
  step_stride_ = 0;
  const std::int64_t width = this->width();
  for (std::int64_t row = 0; row < rows_; ++row) {
    const std::int64_t first = ids_.begin(row);
    const std::int64_t last = ids_.end(row);
    const float scale = scale_of(first, last);
    float* const to = out + row * stride;
    for (std::int64_t i = first; i < last; ++i) {
      const float weight = scale * weight_of(i);
      if (weight == 0) continue;
      const std::int64_t id = ids_.ids[static_cast<std::size_t>(i)];
      check_id(id);
      const float* const from = table_->value.data() + id * width;
      for (std::int64_t d = 0; d < width; ++d) to[d] += weight * from[d];
    }
  }
}

void Lookup::add_steps_to(const Batch& batch, float* out, std::int64_t stride,
                          std::int64_t step_stride) {
  begin(batch);
  step_stride_ = step_stride;
  const std::int64_t width = this->width();
  for (std::int64_t row = 0; row < rows_; ++row) {
    float* to = out + row * stride;
    for (std::int64_t i = ids_.begin(row); i < ids_.end(row); ++i, to += step_stride) {
      const float weight = scale_of(i, i + 1) * weight_of(i);
      if (weight == 0) continue;
      const std::int64_t id = ids_.ids[static_cast<std::size_t>(i)];
      check_id(id);
      const float* const from = table_->value.data() + id * width;
      for (std::int64_t d = 0; d < width; ++d) to[d] += weight * from[d];
    }
  }
}

void Lookup::backward(const float* gradient, std::int64_t stride) {
  if (!table_->trainable) return;
  if (table_->accumulate() == 0) table_->clear_gradient();
  const std::int64_t width = this->width();
  for (std::int64_t row = 0; row < rows_; ++row) {
    const std::int64_t first = ids_.begin(row);
    const std::int64_t last = ids_.end(row);
    const float of_all = step_stride_ == 0 ? scale_of(first, last) : 0;
    const float* from = gradient + row * stride;
    for (std::int64_t i = first; i < last; ++i, from += step_stride_) {
      const float weight = (step_stride_ == 0 ? of_all : scale_of(i, i + 1)) * weight_of(i);
      if (weight == 0) continue;
      float* const to = table_->gradient.data() + ids_.ids[static_cast<std::size_t>(i)] * width;
      for (std::int64_t d = 0; d < width; ++d) to[d] += weight * from[d];
    }
  }
  table_->added();
}

}  // namespace penstock::towers
