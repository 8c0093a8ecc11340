// Applies an optimizer to one copy of the variables.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <penstock/towers/optimizer.h>

#include "towers/gpu/carrier.h"

namespace penstock::towers {

/// An optimizer for one copy of the variables. Not synchronised.
class Updater {
 public:
  /// Makes the optimizer's state of each variable, on the same device as the variable given here.
  Updater(std::span<Variable* const> variables, UpdateOptions options);
  /// The same for a tower's variables, which `store` outlives. If they lie one after the other on a
  /// GPU, all are updated by one launch.
  Updater(VariableStore& store, int tower, UpdateOptions options);
  /// Updates the variables; those without a gradient stay unchanged. Clips the gradients in place.
  /// Throws Error{diverged} if the host has to know their norm and it is not a number, unless the
  /// run continues then.
  void apply(std::span<Variable* const> variables, std::uint64_t step);
  /// Do the two halves of that: `clip` scales all gradients, and the second `apply` updates one
  /// variable. Threads may update different variables at the same time.
  void clip(std::span<Variable* const> variables, std::uint64_t step);
  void apply(Variable& variable, std::size_t index, std::uint64_t step);

  /// Returns the optimizer's state of a variable, to be saved and restored.
  Slots slots(std::size_t variable) { return {slots_.at(variable), gpus_.at(variable)}; }
  const UpdateOptions& options() const noexcept { return options_; }

 private:
  void make_slots(std::span<Variable* const> variables);
  void clip_on_gpus(std::span<Variable* const> variables);
  bool as_one(std::span<Variable* const> variables) const;

  UpdateOptions options_;
  std::vector<std::vector<Array>> slots_;
  std::vector<Gpu*> gpus_;
  // All variables of the tower as one, and its arrays, of which `slots_` has views. Empty: they are
  // updated one by one.
  Variable all_;
  std::vector<Array> all_slots_;
  // For sums of squares, if one copy of the variables is spread over several GPUs: to the first
  // GPU, and the sum back from it.
  std::vector<std::unique_ptr<Carrier>> to_first_, from_first_;
};

/// Returns the norm of all gradients together, on host devices. Each variable's squares are added
/// up separately. So a process that holds some of the variables can add up theirs, and the bits are
/// the same. Source: Pascanu et al., 2013, as tf.clip_by_global_norm.
double gradient_norm(std::span<Variable* const> variables);
double sum_of_squares(std::span<const float> values);
/// Returns the factor that clips gradients of this norm; 1 leaves them unchanged.
float clip_scale(double norm, float clip_norm);

}  // namespace penstock::towers
