#include <penstock/towers/variables.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include <penstock/error.h>
#include <penstock/rng.h>

#include "towers/gpu/gpu.h"

namespace penstock::towers {
namespace {

std::uint64_t hash(std::string_view text) {
  std::uint64_t state = text.size();
  for (const char c : text) state = mix_path(state, static_cast<unsigned char>(c));
  return state;
}

/// Returns where the next variable may begin, because GPU libraries expect matrices aligned to 256
/// bytes.
std::size_t aligned(std::size_t values) {
  constexpr std::size_t kValues = 256 / sizeof(float);
  return (values + kValues - 1) / kValues * kValues;
}

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, "variable " + name + " " + why);
}

void clear_rows(Variable& table, std::span<const std::int64_t> rows) {
  const auto width = static_cast<std::size_t>(table.gradient.row_size());
  for (const std::int64_t row : rows) {
    float* const from = table.gradient.data() + static_cast<std::size_t>(row) * width;
    if (table.gpu != nullptr) {
      table.gpu->stream().clear({reinterpret_cast<std::byte*>(from), width * sizeof(float)});
    } else {
      std::fill_n(from, width, 0.0F);
    }
  }
}

}  // namespace

void Variable::begin_step() noexcept {
  has_gradient = false;
  awaited = users;
  if (rows) rows->begin_step();
}

float Variable::accumulate() {
  if (when_final && awaited == 0)
    refuse(name, "gets another gradient behind its last: whoever adds one must take it up");
  return std::exchange(has_gradient, true) ? 1.0F : 0.0F;
}

void Variable::added() {
  if (awaited > 0 && --awaited == 0 && when_final) when_final();
}

void Variable::read(std::span<const std::int64_t> ids) {
  if (!asks_for_rows()) return;
  const std::span<const std::int64_t> fresh = rows->read(ids, value.dim(0));
  if (has_gradient) clear_rows(*this, fresh);  // has one, of rows read earlier in this step
}

void Variable::clear_gradient() {
  if (asks_for_rows()) {
    clear_rows(*this, rows->rows());
  } else if (gpu != nullptr) {
    gpu->clear(gradient);
  } else {
    gradient.fill(0);
  }
}

Initializer Initializer::glorot(std::int64_t in, std::int64_t out) {
  return {Kind::uniform, std::sqrt(6.0F / static_cast<float>(in + out))};
}

Initializer Initializer::he(std::int64_t in) {
  return normal(std::sqrt(2.0F / static_cast<float>(in)));
}

void Initializer::fill(std::span<float> values, std::uint64_t seed, std::string_view name) const {
  Rng rng(mix64(seed), hash(name), 0);
  for (float& value : values) {
    switch (kind) {
      case Kind::constant:
        value = scale;
        break;
      case Kind::uniform:
        value = static_cast<float>(rng.uniform(-scale, scale));
        break;
      case Kind::normal:
      case Kind::truncated_normal: {
        double draw = rng.normal();
        while (kind == Kind::truncated_normal && std::abs(draw) > 2) draw = rng.normal();
        value = scale * static_cast<float>(draw);
        break;
      }
    }
  }
}

Scope Scope::operator/(std::string_view name) const {
  return {*store_, tower_, prefix_ + std::string(name) + "/", reuse_, part_};
}

Scope Scope::reuse() const {
  return {*store_, tower_, prefix_, true, part_};
}

Scope Scope::on(std::size_t part) const {
  return {*store_, tower_, prefix_, reuse_, part};
}

std::span<const Part> Scope::parts() const {
  store_->asked_for_parts_ = true;
  return store_->parts_;
}

Variable& Scope::get(std::string_view name, const Shape& shape,
                     const VariableOptions& options) const {
  return store_->get(tower_, prefix_ + std::string(name), shape, options, reuse_, gpu());
}

Gpu* Scope::gpu() const {
  return store_->parts_.empty() ? store_->gpu(tower_) : store_->parts_[part_].gpu;
}

VariableStore::VariableStore(int towers, std::uint64_t seed) : seed_(seed) {
  if (towers < 1) throw Error(ErrorCode::invalid_argument, "no towers to hold variables");
  towers_.resize(static_cast<std::size_t>(towers));
}

Scope VariableStore::tower(int tower) {
  return {*this, tower, "", tower > 0};
}

void VariableStore::use(int tower, Gpu& gpu) {
  towers_[static_cast<std::size_t>(tower)].gpu = &gpu;
}

Variable& VariableStore::get(int tower, const std::string& name, const Shape& shape,
                             const VariableOptions& options, bool reuse, Gpu* gpu) {
  const auto known = entries_.find(name);
  if (!reuse && known != entries_.end())
    refuse(name, "exists already; only a scope that reuses may share it");
  if (reuse && known == entries_.end()) refuse(name, "does not exist, and its scope reuses");
  if (known != entries_.end() && !(known->second.shape == shape))
    refuse(name, "has shape " + known->second.shape.to_string() + ", not " + shape.to_string());
  const Entry& entry =
      known != entries_.end()
          ? known->second
          : entries_.emplace(name, Entry{entries_.size(), shape, options}).first->second;

  Tower& mine = towers_[static_cast<std::size_t>(tower)];
  mine.variables.resize(std::max(mine.variables.size(), entry.index + 1));
  Variable*& place = mine.variables[entry.index];
  if (place == nullptr) {
    auto variable = std::make_unique<Variable>();
    variable->name = name;
    variable->trainable = entry.options.trainable;
    variable->by_rows = entry.options.by_rows;
    Array values(shape);
    entry.options.initializer.fill(values.values(), seed_, name);
    variable->gpu = gpu;
    if (gpu != nullptr) {
      variable->value = gpu->array(DType::f32);
      variable->gradient = gpu->array(DType::f32);
    }
    variable->value.resize(shape);
    variable->gradient.resize(shape);
    assign(gpu, values.values(), variable->value);
    place = variable.get();
    mine.owned.push_back(std::move(variable));
  }
  ++place->users;
  return *place;
}

std::vector<Gpu*> VariableStore::gpus(int tower) const {
  std::vector<Gpu*> all;
  for (const Part& part : parts_)
    if (part.gpu != nullptr) all.push_back(part.gpu);
  if (Gpu* one = gpu(tower); one != nullptr && parts_.empty()) all.push_back(one);
  return all;
}

void VariableStore::pack() {
  if (parts_.size() > 1 && !asked_for_parts_)
    throw Error(ErrorCode::invalid_argument, "this model can't be divided among devices");
  offsets_.clear();
  std::size_t total = 0;
  for (const Variable* variable : of(0)) {
    offsets_.push_back(aligned(total));
    total = offsets_.back() + variable->value.size();
  }
  const Shape flat{static_cast<std::int64_t>(total)};
  for (Tower& tower : towers_) {
    tower.variables.resize(entries_.size());
    for (const auto& [name, entry] : entries_)
      if (tower.variables[entry.index] == nullptr) refuse(name, "is not used by every tower");
    if (gpus(0).size() > 1) {
      for (Variable* variable : tower.variables) variable->gpu->clear(variable->gradient);
      continue;
    }
    if (tower.gpu != nullptr) {
      tower.values = tower.gpu->array(DType::f32);
      tower.gradients = tower.gpu->array(DType::f32);
    }
    tower.values.resize(flat);
    tower.gradients.resize(flat);
    for (Array* array : {&tower.values, &tower.gradients}) {
      if (tower.gpu != nullptr) {
        tower.gpu->clear(*array);
      } else {
        array->fill(0);
      }
    }
    for (const auto& [name, entry] : entries_) {
      Variable* variable = tower.variables[entry.index];
      float* value = tower.values.data() + offsets_[entry.index];
      if (tower.gpu != nullptr) {
        tower.gpu->stream().copy({value, variable->value.bytes(), variable->value.nbytes()});
      } else {
        std::ranges::copy(variable->value.values(), value);
      }
      variable->value = Array::view(value, entry.shape);
      variable->gradient = Array::view(tower.gradients.data() + offsets_[entry.index], entry.shape);
    }
  }
}

std::span<Variable* const> VariableStore::of(int tower) const {
  return towers_[static_cast<std::size_t>(tower)].variables;
}

std::span<float> VariableStore::values(int tower) noexcept {
  return towers_[static_cast<std::size_t>(tower)].values.values();
}

std::span<float> VariableStore::gradients(int tower) noexcept {
  return towers_[static_cast<std::size_t>(tower)].gradients.values();
}

void VariableStore::share(std::size_t variable) {
  if (towers() == 1) return;
  const Array value = on_host(of(0)[variable]->gpu, of(0)[variable]->value);
  for (int tower = 1; tower < towers(); ++tower)
    assign(gpu(tower), value.values(), of(tower)[variable]->value);
}

std::uint64_t VariableStore::digest() const {
  std::uint64_t state = 0;
  for (const Variable* variable : of(0)) {
    state = mix_path(state, hash(variable->name));
    const Array values = on_host(variable->gpu, variable->value);
    for (const float value : values.values())
      state = mix_path(state, std::bit_cast<std::uint32_t>(value));
  }
  return state;
}

}  // namespace penstock::towers
