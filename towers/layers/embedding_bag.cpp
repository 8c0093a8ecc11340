#include <penstock/towers/layers/embedding_bag.h>

#include <algorithm>

#include <penstock/error.h>

#include "towers/gpu/layers.h"

namespace penstock::towers {

EmbeddingBag::EmbeddingBag(const Scope& scope, std::int64_t rows, std::int64_t width,
                           const Initializer& initializer)
    : name_(scope.prefix() + "embedding_bag"),
      gpu_(scope.gpu()),
      table_(scope.get("table", {rows, width}, {.initializer = initializer, .by_rows = true})) {}

std::int64_t EmbeddingBag::named(std::int64_t sample) const {
  const auto ids =
      ids_.subspan(static_cast<std::size_t>(sample * most_), static_cast<std::size_t>(most_));
  return std::ranges::count_if(ids, [](std::int64_t id) { return id >= 0; });
}

void EmbeddingBag::read_rows() {
  if (!table_.asks_for_rows()) return;
  if (gpu_ == nullptr) return table_.read(ids_);
  host_ids_.resize(ids_.size());
  gpu_->stream().copy({host_ids_.data(), ids_.data(), ids_.size_bytes()});
  gpu_->stream().synchronize();
  table_.read(host_ids_);
}

const Array& EmbeddingBag::forward(std::span<const std::int64_t> ids, std::int64_t samples) {
  const std::int64_t width = table_.value.dim(1);
  ids_ = ids;
  most_ = samples > 0 ? static_cast<std::int64_t>(ids.size()) / samples : 0;
  read_rows();
  if (gpu_ != nullptr) {
    begin_on(*gpu_, samples, rows_, {&out_});
    out_.resize({samples, width});
    with_type(*gpu_, [&]<typename T>(T) {
      gpu_->run(EmbeddingPlan<T>{table_.value.data(), ids.data(), out_.as<T>(),
                                 rows_.as<RowResult>(), table_.value.dim(0), width, most_},
                samples * width);
    });
    gpu_->add_results(rows_);
    return out_;
  }
  out_.resize({samples, width});
  out_.fill(0);
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    const std::int64_t count = named(sample);
    float* to = out_.data() + sample * width;
    for (std::int64_t i = sample * most_; i < (sample + 1) * most_; ++i) {
      const std::int64_t id = ids[static_cast<std::size_t>(i)];
      if (id < 0) continue;
      if (id >= table_.value.dim(0))
        throw Error(ErrorCode::invalid_argument,
                    name_ + ": id " + std::to_string(id) + " of sample " + std::to_string(sample) +
                        " is not one of " + std::to_string(table_.value.dim(0)));
      const float* from = table_.value.data() + id * width;
      for (std::int64_t d = 0; d < width; ++d) to[d] += from[d] / static_cast<float>(count);
    }
  }
  return out_;
}

void EmbeddingBag::backward(const Array& gradient) {
  const std::int64_t width = table_.value.dim(1);
  if (gpu_ != nullptr) {
    if (table_.accumulate() == 0) table_.clear_gradient();
    const std::int64_t samples = gradient.dim(0);
    const std::int64_t at_once = gpu_->deterministic() ? 1 : samples;
    with_type(*gpu_, [&]<typename T>(T) {
      gpu_->run(EmbeddingBackPlan<T>{gradient.as<T>(), ids_.data(), table_.gradient.data(),
                                     table_.value.dim(0), width, most_, samples, at_once},
                at_once * width);
    });
    table_.added();
    return;
  }
  if (table_.accumulate() == 0) table_.clear_gradient();
  for (std::int64_t sample = 0; sample < gradient.dim(0); ++sample) {
    const std::int64_t count = named(sample);
    const float* from = gradient.data() + sample * width;
    for (std::int64_t i = sample * most_; i < (sample + 1) * most_; ++i) {
      const std::int64_t id = ids_[static_cast<std::size_t>(i)];
      if (id < 0) continue;
      float* to = table_.gradient.data() + id * width;
      for (std::int64_t d = 0; d < width; ++d) to[d] += from[d] / static_cast<float>(count);
    }
  }
  table_.added();
}

}  // namespace penstock::towers
