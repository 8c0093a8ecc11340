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
    if (from.has_gradient)
      gpu->stream().copy({to.gradient.data(), from.gradient.bytes(), from.gradient.nbytes()});
    if (!from.trainable)
      gpu->stream().copy({to.value.data(), from.value.bytes(), from.value.nbytes()});
  }
  gpu->stream().synchronize();
  gpu->device()->check();
}

void HostSide::give() {
  Gpu* gpu = store_.gpu(tower_);
  if (gpu == nullptr) return;
  for (std::size_t v = 0; v < variables_.size(); ++v) {
    const Array& from = variables_[v]->value;
    gpu->stream().copy({store_.of(tower_)[v]->value.bytes(), from.data(), from.nbytes()});
  }
  gpu->stream().synchronize();  // the copies may be written again
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
