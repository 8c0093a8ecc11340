// How a gradient changes a variable.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "towers/gpu/carrier.h"
#include "towers/schedule.h"
#include "towers/variables.h"

namespace penstock::towers {

/// A rule of updating. Immutable and thread-safe; what it remembers of each variable are arrays of
/// the variable's shape that it is given.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// What it was made from: "momentum:0.9".
  virtual std::string describe() const = 0;
  /// The names of what is remembered, "momentum": zeros in the beginning.
  virtual std::vector<std::string> slots() const = 0;
  /// Updates a variable that has a gradient, where it lies; `step` counts updates from 0.
  virtual void apply(Variable& variable, std::span<Array> slots, float rate,
                     std::uint64_t step) const = 0;
};
using OptimizerPtr = std::shared_ptr<const Optimizer>;

/// "sgd": v -= rate * g. "momentum:0.9", "nesterov:0.9": m = 0.9 m + g, v -= rate * m (or rate * (g
/// + 0.9 m)). "adam", "adam:0.9:0.999:1e-8": Kingma and Ba, 2015, with its bias corrections. Throws
/// Error{invalid_argument} for anything else.
OptimizerPtr make_optimizer(const std::string& text);

struct UpdateOptions {
  OptimizerPtr optimizer = make_optimizer("sgd");
  Schedule schedule = Schedule::constant(0.01);
  /// Gradients are scaled so that the norm of all together is at most this; 0: left alone.
  float clip_norm = 0;
};

/// What the optimizer remembers of a variable, and where that lies.
struct Slots {
  std::span<Array> arrays{};
  Gpu* gpu = nullptr;
};

/// Updates one copy of the variables. Not synchronised.
class Updater {
 public:
  /// What is remembered of each lies with the variable that is given here.
  Updater(std::span<Variable* const> variables, UpdateOptions options);
  /// Variables that have no gradient stay as they are. Clips the gradients in place.
  void apply(std::span<Variable* const> variables, std::uint64_t step);
  /// The two halves of that: scales all gradients, and updates one variable. Threads may update
  /// different variables at a time.
  void clip(std::span<Variable* const> variables);
  void apply(Variable& variable, std::size_t index, std::uint64_t step);

  /// What the optimizer remembers of a variable, to be saved and restored.
  Slots slots(std::size_t variable) { return {slots_.at(variable), gpus_.at(variable)}; }
  const UpdateOptions& options() const noexcept { return options_; }

 private:
  void clip_on_gpus(std::span<Variable* const> variables);

  UpdateOptions options_;
  std::vector<std::vector<Array>> slots_;
  std::vector<Gpu*> gpus_;
  // Of squares, where one copy lies on several GPUs: to the first of them, and the sum back.
  std::vector<std::unique_ptr<Carrier>> to_first_, from_first_;
};

/// The norm of all gradients together, on host devices. Source: Pascanu et al., 2013, as
/// tf.clip_by_global_norm.
double gradient_norm(std::span<Variable* const> variables);

}  // namespace penstock::towers
