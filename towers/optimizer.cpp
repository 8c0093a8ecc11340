#include <penstock/towers/optimizer.h>

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
  bool elementwise() const override { return true; }
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
    return (nesterov_ ? "nesterov:" : "momentum:") + exact_text(keep_);
  }
  std::vector<std::string> slots() const override { return {"momentum"}; }
  bool elementwise() const override { return true; }
  void apply(Variable& variable, std::span<Array> slots, float rate,
             std::uint64_t /*step*/) const override {
    const MomentumPlan plan{
        variable.value.data(), variable.gradient.data(), slots[0].data(), rate, keep_, nesterov_};
    if (!variable.by_rows || variable.gpu != nullptr)
      return run(variable.gpu, plan, variable.value.size());
    // As in TensorFlow with sparse gradients: rows without a gradient keep their momentum.
    const std::int64_t width = variable.value.row_size();
    for (std::int64_t row = 0; row < variable.value.dim(0); ++row) {
      const float* const gradient = plan.gradient + row * width;
      if (std::all_of(gradient, gradient + width, [](float g) { return g == 0; })) continue;
      for (std::int64_t i = row * width; i < (row + 1) * width; ++i) plan(i);
    }
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
    return "adam:" + exact_text(first_) + ":" + exact_text(second_) + ":" + exact_text(epsilon_);
  }
  std::vector<std::string> slots() const override { return {"adam_first", "adam_second"}; }
  bool elementwise() const override { return epsilon_ > 0; }  // 0 / 0 is no number
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
  if (parsed.name == "adam" && parsed.numbers.size() <= 3) {
    const double epsilon = parsed.at(2, 1e-8);
    if (epsilon < 0)
      throw Error(ErrorCode::invalid_argument,
                  "optimizer " + text + ": epsilon must not be below 0");
    return std::make_shared<Adam>(in_unit(parsed.at(0, 0.9)), in_unit(parsed.at(1, 0.999)),
                                  epsilon);
  }
  throw Error(ErrorCode::invalid_argument,
              "optimizer: expected sgd, momentum:M, nesterov:M or adam:B1:B2:EPSILON, got " + text);
}

}  // namespace penstock::towers
