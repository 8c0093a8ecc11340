#include "towers/strategies/host_side.h"

#include <algorithm>

#include "towers/gpu/gpu.h"

namespace penstock::towers {

HostSide::HostSide(VariableStore& store, int tower) : store_(store), tower_(tower) {
  for (Variable* variable : store.of(tower)) {
    if (store.gpu(tower) == nullptr) {
      variables_.push_back(variable);
      continue;
    }
    Variable& copy = *copies_.emplace_back(std::make_unique<Variable>());
    copy.name = variable->name;
    copy.trainable = variable->trainable;
    copy.value = Array(variable->value.shape());
    copy.gradient = Array(variable->gradient.shape());
    variables_.push_back(&copy);
  }
}

void HostSide::fetch() {
  Gpu* gpu = store_.gpu(tower_);
  if (gpu == nullptr) return;
  for (std::size_t v = 0; v < variables_.size(); ++v) {
    const Variable& from = *store_.of(tower_)[v];
    Variable& to = *variables_[v];
    to.has_gradient = from.has_gradient;
    if (from.has_gradient && !from.rows)
      gpu->stream().copy({to.gradient.data(), from.gradient.bytes(), from.gradient.nbytes()});
    if (!from.trainable)
      gpu->stream().copy({to.value.data(), from.value.bytes(), from.value.nbytes()});
  }
  gpu->stream().synchronize();
  gpu->device()->check();
}

void HostSide::give(bool tables) {
  Gpu* gpu = store_.gpu(tower_);
  if (gpu == nullptr) return;
  for (std::size_t v = 0; v < variables_.size(); ++v) {
    if (!tables && store_.of(tower_)[v]->rows) continue;
    const Array& from = variables_[v]->value;
    gpu->stream().copy({store_.of(tower_)[v]->value.bytes(), from.data(), from.nbytes()});
  }
  gpu->stream().synchronize();  // the copies may be overwritten
}

void HostSide::give_rows(std::size_t variable, std::span<const std::int64_t> rows,
                         std::span<const float> values) {
  Gpu* gpu = store_.gpu(tower_);
  Array& here = variables_[variable]->value;
  Array& there = store_.of(tower_)[variable]->value;
  const auto width = static_cast<std::size_t>(here.row_size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::size_t at = static_cast<std::size_t>(rows[r]) * width;
    std::copy_n(values.data() + r * width, width, here.data() + at);
    if (gpu != nullptr)
      gpu->stream().copy({there.data() + at, here.data() + at, width * sizeof(float)});
  }
  if (gpu != nullptr) gpu->stream().synchronize();  // the copy may be overwritten
}

void HostSide::fetch_rows(std::size_t variable, std::vector<float>& gradient) const {
  Gpu* gpu = store_.gpu(tower_);
  const Variable& from = *store_.of(tower_)[variable];
  const auto width = static_cast<std::size_t>(from.gradient.row_size());
  const std::span<const std::int64_t> rows = from.rows->rows();
  gradient.resize(rows.size() * width);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const float* row = from.gradient.data() + static_cast<std::size_t>(rows[r]) * width;
    float* to = gradient.data() + r * width;
    if (gpu != nullptr) {
      gpu->stream().copy({to, row, width * sizeof(float)});
    } else {
      std::copy_n(row, width, to);
    }
  }
  if (gpu != nullptr) gpu->stream().synchronize();
}

std::vector<HostSide> host_sides(VariableStore& store) {
  std::vector<HostSide> sides;
  for (int tower = 0; tower < store.towers(); ++tower) sides.emplace_back(store, tower);
  return sides;
}

std::vector<std::unique_ptr<Variable>> copies_of(VariableStore& store) {
  std::vector<std::unique_ptr<Variable>> copies;
  for (const Variable* variable : store.of(0)) {
    Variable& copy = *copies.emplace_back(std::make_unique<Variable>());
    copy.name = variable->name;
    copy.trainable = variable->trainable;
    copy.value.resize(variable->value.shape());
    copy.gradient = Array(variable->value.shape());
    std::ranges::copy(on_host(store.gpu(0), variable->value).values(), copy.value.data());
  }
  return copies;
}

std::vector<Variable*> view_of(const std::vector<std::unique_ptr<Variable>>& variables) {
  std::vector<Variable*> view;
  for (const std::unique_ptr<Variable>& variable : variables) view.push_back(variable.get());
  return view;
}

}  // namespace penstock::towers
