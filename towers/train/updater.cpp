#include "towers/train/updater.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <penstock/error.h>

#include "towers/gpu/gpu.h"

namespace penstock::towers {
namespace {

/// Returns the sum of squares of all gradients on the GPU, computed there.
const double* sum_squares(Gpu& gpu, std::span<Variable* const> variables) {
  constexpr std::int64_t kPart = 1 << 14;
  const auto parts_of = [&gpu](const Variable& variable) {
    return variable.has_gradient && variable.gpu == &gpu
               ? (static_cast<std::int64_t>(variable.gradient.size()) + kPart - 1) / kPart
               : 0;
  };
  std::int64_t parts = 0;
  for (const Variable* variable : variables) parts += parts_of(*variable);
  Array& scratch = gpu.scratch(static_cast<std::size_t>(parts + 1) * sizeof(double));
  auto* sums = scratch.as<double>();
  gpu.stream().clear({scratch.bytes(), sizeof(double)});
  std::int64_t at = 1;
  for (const Variable* variable : variables) {
    gpu.run(SquareSumPlan{variable->gradient.data(), sums + at,
                          static_cast<std::int64_t>(variable->gradient.size()), kPart},
            parts_of(*variable));
    at += parts_of(*variable);
  }
  gpu.run(ColumnsPlan{sums + 1, sums, parts, 1, 1}, 1);
  return sums;
}

/// Returns the number of values that are not trained. Statistics are few, tables may be most.
std::size_t frozen(std::span<Variable* const> variables) {
  std::size_t count = 0;
  for (const Variable* variable : variables)
    if (!variable->trainable) count += variable->value.size();
  return count;
}

Array zeros(Gpu* gpu, const Shape& shape) {
  if (gpu == nullptr) return Array(shape);
  Array made = gpu->array(DType::f32);
  made.resize(shape);
  gpu->clear(made);
  return made;
}

}  // namespace

Updater::Updater(std::span<Variable* const> variables, UpdateOptions options)
    : options_(std::move(options)) {
  make_slots(variables);
}

void Updater::make_slots(std::span<Variable* const> variables) {
  const std::size_t count = options_.optimizer->slots().size();
  for (const Variable* variable : variables) {
    std::vector<Array>& slots = slots_.emplace_back();
    gpus_.push_back(variable->gpu);
    for (std::size_t i = 0; i < count && variable->trainable; ++i)
      slots.push_back(zeros(variable->gpu, variable->value.shape()));
  }
}

Updater::Updater(VariableStore& store, int tower, UpdateOptions options)
    : options_(std::move(options)) {
  const std::span<float> values = store.values(tower);
  Gpu* const gpu = store.gpu(tower);
  if (gpu == nullptr || values.empty() || !options_.optimizer->elementwise() ||
      frozen(store.of(tower)) > values.size() / 8) {
    make_slots(store.of(tower));
    return;
  }
  const Shape flat{static_cast<std::int64_t>(values.size())};
  all_.gpu = gpu;
  all_.value = Array::view(values.data(), flat);
  all_.gradient = Array::view(store.gradients(tower).data(), flat);
  for (std::size_t i = 0; i < options_.optimizer->slots().size(); ++i)
    all_slots_.push_back(zeros(gpu, flat));
  const std::span<Variable* const> variables = store.of(tower);
  for (std::size_t v = 0; v < variables.size(); ++v) {
    std::vector<Array>& slots = slots_.emplace_back();
    gpus_.push_back(gpu);
    for (std::size_t i = 0; i < all_slots_.size() && variables[v]->trainable; ++i)
      slots.push_back(
          Array::view(all_slots_[i].data() + store.offset(v), variables[v]->value.shape()));
  }
}

void Updater::clip(std::span<Variable* const> variables, std::uint64_t step) {
  if (options_.clip_norm <= 0 || variables.empty()) return;
  if (variables[0]->gpu != nullptr) return clip_on_gpus(variables);
  const double norm = gradient_norm(variables);
  if (!std::isfinite(norm) && options_.stop_if_diverged)
    throw Error(ErrorCode::diverged, "the norm of the gradients is not a number at step " +
                                         std::to_string(step) + "; a lower learning rate may help");
  const float scale = clip_scale(norm, options_.clip_norm);
  if (scale == 1) return;
  for (Variable* variable : variables)
    if (variable->has_gradient)
      for (float& value : variable->gradient.values()) value *= scale;
}

// The norm stays on the devices, so that the host does not wait for it.
void Updater::clip_on_gpus(std::span<Variable* const> variables) {
  std::vector<Gpu*> gpus;
  for (const Variable* variable : variables)
    if (std::ranges::find(gpus, variable->gpu) == gpus.end()) gpus.push_back(variable->gpu);
  std::vector<const double*> squares;
  for (Gpu* gpu : gpus) squares.push_back(sum_squares(*gpu, variables));
  for (std::size_t g = to_first_.size() + 1; g < gpus.size(); ++g) {
    to_first_.push_back(std::make_unique<Carrier>(*gpus[g], *gpus[0]));
    from_first_.push_back(std::make_unique<Carrier>(*gpus[0], *gpus[g]));
  }
  const auto view = [](const double* value) {
    return Array::view(const_cast<double*>(value), DType::f64, {1});  // NOLINT: the first's is ours
  };
  Array total = view(squares[0]);
  for (std::size_t g = 1; g < gpus.size(); ++g)
    gpus[0]->run(ColumnsPlan{to_first_[g - 1]->carry(view(squares[g])).as<double>(),
                             total.as<double>(), 1, 1, 1},
                 1);
  for (std::size_t g = 1; g < gpus.size(); ++g)
    squares[g] = from_first_[g - 1]->carry(total).as<double>();
  for (Variable* variable : variables) {
    if (!variable->has_gradient) continue;
    const auto g = static_cast<std::size_t>(std::ranges::find(gpus, variable->gpu) - gpus.begin());
    variable->gpu->run(
        ClipPlan{variable->gradient.data(), squares[g], static_cast<double>(options_.clip_norm)},
        static_cast<std::int64_t>(variable->gradient.size()));
  }
}

void Updater::apply(Variable& variable, std::size_t index, std::uint64_t step) {
  if (!variable.has_gradient || !variable.trainable) return;
  options_.optimizer->apply(variable, slots_[index], static_cast<float>(options_.schedule.at(step)),
                            step);
}

void Updater::apply(std::span<Variable* const> variables, std::uint64_t step) {
  clip(variables, step);
  if (as_one(variables)) {
    options_.optimizer->apply(all_, all_slots_, static_cast<float>(options_.schedule.at(step)),
                              step);
    return;
  }
  for (std::size_t i = 0; i < variables.size(); ++i) apply(*variables[i], i, step);
}

// The gradients of what is not trainable, and of the gaps, are zeros.
bool Updater::as_one(std::span<Variable* const> variables) const {
  return !all_.value.empty() && std::ranges::all_of(variables, [](const Variable* variable) {
    return !variable->rows && (variable->has_gradient || !variable->trainable);
  });
}

double sum_of_squares(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

double gradient_norm(std::span<Variable* const> variables) {
  double sum = 0;
  for (const Variable* variable : variables)
    if (variable->has_gradient) sum += sum_of_squares(variable->gradient.values());
  return std::sqrt(sum);
}

float clip_scale(double norm, float clip_norm) {
  if (clip_norm <= 0 || norm <= static_cast<double>(clip_norm)) return 1;
  return static_cast<float>(static_cast<double>(clip_norm) / norm);
}

}  // namespace penstock::towers
