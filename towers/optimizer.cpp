#include "towers/optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <penstock/error.h>

#include "towers/gpu/gpu.h"
#include "towers/numbers.h"

namespace penstock::towers {
namespace {

class Sgd final : public Optimizer {
 public:
  std::string describe() const override { return "sgd"; }
  std::vector<std::string> slots() const override { return {}; }
  void apply(Variable& variable, std::span<Array> /*slots*/, float rate,
             std::uint64_t /*step*/) const override {
    run(variable.gpu, SgdPlan{variable.value.data(), variable.gradient.data(), rate},
        variable.value.size());
  }
};

class Momentum final : public Optimizer {
 public:
  Momentum(float keep, bool nesterov) : keep_(keep), nesterov_(nesterov) {}
  std::string describe() const override {
    return (nesterov_ ? "nesterov:" : "momentum:") + std::to_string(keep_);
  }
  std::vector<std::string> slots() const override { return {"momentum"}; }
  void apply(Variable& variable, std::span<Array> slots, float rate,
             std::uint64_t /*step*/) const override {
    run(variable.gpu,
        MomentumPlan{variable.value.data(), variable.gradient.data(), slots[0].data(), rate, keep_,
                     nesterov_},
        variable.value.size());
  }

 private:
  const float keep_;
  const bool nesterov_;
};

class Adam final : public Optimizer {
 public:
  Adam(double first, double second, double epsilon)
      : first_(first), second_(second), epsilon_(static_cast<float>(epsilon)) {}
  std::string describe() const override {
    return "adam:" + std::to_string(first_) + ":" + std::to_string(second_) + ":" +
           std::to_string(epsilon_);
  }
  std::vector<std::string> slots() const override { return {"adam_first", "adam_second"}; }
  void apply(Variable& variable, std::span<Array> slots, float rate,
             std::uint64_t step) const override {
    const auto count = static_cast<double>(step + 1);
    const auto scale = static_cast<float>(rate / (1 - std::pow(first_, count)));
    const auto root = static_cast<float>(1 / std::sqrt(1 - std::pow(second_, count)));
    run(variable.gpu,
        AdamPlan{variable.value.data(), variable.gradient.data(), slots[0].data(), slots[1].data(),
                 static_cast<float>(first_), static_cast<float>(second_), scale, root, epsilon_},
        variable.value.size());
  }

 private:
  const double first_, second_;
  const float epsilon_;
};

/// The squares of all gradients on the GPU, summed up there.
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

}  // namespace

OptimizerPtr make_optimizer(const std::string& text) {
  const NamedNumbers parsed = parse_named_numbers(text, "optimizer");
  const auto in_unit = [&](double value) {
    if (!(value >= 0 && value < 1))
      throw Error(ErrorCode::invalid_argument, "optimizer " + text + ": a share must be in [0, 1)");
    return value;
  };
  if (parsed.name == "sgd" && parsed.numbers.empty()) return std::make_shared<Sgd>();
  if ((parsed.name == "momentum" || parsed.name == "nesterov") && parsed.numbers.size() <= 1)
    return std::make_shared<Momentum>(static_cast<float>(in_unit(parsed.at(0, 0.9))),
                                      parsed.name == "nesterov");
  if (parsed.name == "adam" && parsed.numbers.size() <= 3)
    return std::make_shared<Adam>(in_unit(parsed.at(0, 0.9)), in_unit(parsed.at(1, 0.999)),
                                  parsed.at(2, 1e-8));
  throw Error(ErrorCode::invalid_argument,
              "optimizer: expected sgd, momentum:M, nesterov:M or adam:B1:B2:EPSILON, got " + text);
}

Updater::Updater(std::span<Variable* const> variables, UpdateOptions options)
    : options_(std::move(options)) {
  const std::size_t count = options_.optimizer->slots().size();
  for (const Variable* variable : variables) {
    std::vector<Array>& slots = slots_.emplace_back();
    gpus_.push_back(variable->gpu);
    for (std::size_t i = 0; i < count && variable->trainable; ++i) {
      if (variable->gpu == nullptr) {
        slots.emplace_back(variable->value.shape());
      } else {
        slots.push_back(variable->gpu->array(DType::f32));
        slots.back().resize(variable->value.shape());
        variable->gpu->clear(slots.back());
      }
    }
  }
}

void Updater::clip(std::span<Variable* const> variables) {
  if (options_.clip_norm <= 0 || variables.empty()) return;
  if (variables[0]->gpu != nullptr) return clip_on_gpus(variables);
  const double norm = gradient_norm(variables);
  if (norm <= static_cast<double>(options_.clip_norm)) return;
  const auto scale = static_cast<float>(static_cast<double>(options_.clip_norm) / norm);
  for (Variable* variable : variables)
    if (variable->has_gradient)
      for (float& value : variable->gradient.values()) value *= scale;
}

// The norm stays on devices, so that nobody waits for it.
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
  clip(variables);
  for (std::size_t i = 0; i < variables.size(); ++i) apply(*variables[i], i, step);
}

double gradient_norm(std::span<Variable* const> variables) {
  double sum = 0;
  for (const Variable* variable : variables)
    if (variable->has_gradient)
      for (const float value : variable->gradient.values())
        sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

}  // namespace penstock::towers
