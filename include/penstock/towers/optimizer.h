// Optimizers: how a gradient changes a variable.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <penstock/towers/schedule.h>
#include <penstock/towers/variables.h>

namespace penstock::towers {

/// A rule of updating. Immutable and thread-safe. It remembers each variable in arrays of the
/// variable's shape, which the caller keeps.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Returns "momentum:0.9", with all digits, from which `make_optimizer` makes an equal optimizer.
  virtual std::string describe() const = 0;
  /// Returns the names of the arrays that it keeps for a variable, such as "momentum". They begin
  /// as zeros.
  virtual std::vector<std::string> slots() const = 0;
  /// Returns true if each value depends on its own gradient and its own places of the arrays alone,
  /// and stays as it is while these are zeros. On a GPU, one call then updates all variables as if
  /// they were one, with the gaps between them.
  virtual bool elementwise() const { return false; }
  /// Updates a variable that has a gradient, where it lies; `step` counts updates from 0.
  virtual void apply(Variable& variable, std::span<Array> slots, float rate,
                     std::uint64_t step) const = 0;
};
/// A shared optimizer.
using OptimizerPtr = std::shared_ptr<const Optimizer>;

/// Returns the optimizer that `text` describes:
///
///   - "sgd": v -= rate * g.
///
///   - "momentum:0.9", "nesterov:0.9": m = 0.9 m + g, v -= rate * m (or rate * (g + 0.9 m)). Of a
///     table (Variable::by_rows) on the host they change only rows whose gradient is not zeros.
///
///   - "adam", "adam:0.9:0.999:1e-8": Kingma and Ba, 2015, with its bias corrections.
///
/// Throws Error{invalid_argument} for anything else.
OptimizerPtr make_optimizer(const std::string& text);

/// The options of updates.
struct UpdateOptions {
  OptimizerPtr optimizer = make_optimizer("sgd");  ///< sgd by default
  Schedule schedule = Schedule::constant(0.01);    ///< of the learning rate
  /// Scales gradients so that the norm of all together is at most this; 0: they stay as they are.
  float clip_norm = 0;
  /// Ends the run with Error{diverged} at a loss, or a norm of gradients, that is no number, or at
  /// a loss beyond 1e18. Otherwise a warning tells of the run's first such loss.
  bool stop_if_diverged = true;
};

/// The arrays that the optimizer keeps for a variable, and their place.
struct Slots {
  std::span<Array> arrays{};  ///< as many as the optimizer needs
  Gpu* gpu = nullptr;         ///< null: in host memory
};

}  // namespace penstock::towers
