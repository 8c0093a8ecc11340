// Gradient exchange for towers of any framework: gradients in the framework's memory, exchanged as
// the trainer's are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/device.h>
#include <penstock/dtype.h>
#include <penstock/shape.h>
#include <penstock/towers/strategy.h>

namespace penstock::towers {

/// A parameter of one tower, in memory that the framework owns: row-major, without gaps.
struct OwnParameter {
  std::string name{};        ///< "layer1.weight"
  DType dtype = DType::f32;  ///< or f64, which is summed as f64
  Shape shape{};             ///< of value and gradient
  void* value = nullptr;     ///< only `share_values` needs it
  void* gradient = nullptr;  ///< is replaced by the combination; stays where it is
};

/// A tower of the framework.
struct OwnTower {
  std::vector<OwnParameter> parameters{};  ///< in the order in which the model uses them
  /// The stream in whose order gradients are made, on the device where the parameters lie. Empty:
  /// they lie in host memory, and a gradient is there when `ready` is called.
  std::optional<StreamView> stream{};
};

/// The options of an exchange.
struct ParameterExchangeOptions {
  Combine combine = Combine::average;  ///< how gradients become one
  /// Bytes of gradients that are exchanged in one piece, as soon as backward passes have made them.
  std::size_t bucket_bytes = std::size_t{4} << 20;
  double timeout_s = 600;  ///< how long towers wait for each other
  /// Other processes, which have the same number of towers with the same parameters (see `join`).
  /// They must outlive the exchange. Null: none.
  Peers* peers = nullptr;
};

/// Combines the gradients of towers whose parameters belong to another framework. Gradients are
/// means over each tower's rows. The gradient of a parameter becomes the mean over all rows of the
/// towers that have one, or the sum of their means. Sums follow the trainer's rule, ((0 + 1) + (2 +
/// 3)) + …, so a run has the trainer's bits, whichever tower is faster. With peers whose exchange
/// is "ordered", the bits don't depend on how towers are divided among processes either. In each
/// step, for each tower:
///
///     exchange.begin(tower, rows);
///     …backward pass…: exchange.ready(tower, parameter);  // each that has a gradient, once
///     exchange.push(tower);
///     exchange.wait(tower);                                // its gradients are the combination
///
/// With virtual towers there are more towers than devices. Their parameters have the same values,
/// but each has gradients of its own. One thread `push`es them all before it `wait`s for any. So a
/// model has the same bits on any number of devices.
///
/// Calls for one tower are made one at a time, by any thread. Calls for different towers may run at
/// once. A thread of the exchange makes the sums; gradients in device memory go through pinned host
/// memory. Events order this with the work of the tower's stream. No other thread waits for a
/// device.
class ParameterExchange {
 public:
  /// Makes an exchange. The memory that parameters name must outlive it. Throws
  /// Error{invalid_argument} naming a parameter whose form differs between towers or processes,
  /// that is neither f32 nor f64, or that has no gradient. Throws it also for no towers. With peers
  /// in order, it throws for a number of towers that is not a power of two.
  ParameterExchange(std::vector<OwnTower> towers, const ParameterExchangeOptions& options = {});
  ~ParameterExchange();
  ParameterExchange(const ParameterExchange&) = delete;
  ParameterExchange& operator=(const ParameterExchange&) = delete;

  /// Gives all towers of all processes the values of rank 0's first tower, and waits for that. All
  /// processes call it, between steps. Throws Error{invalid_argument} naming a parameter without a
  /// value.
  void share_values();

  /// Begins the tower's backward pass, over a batch of `rows`; 0: its gradients count nothing.
  /// Throws the error that `fail` was given.
  void begin(int tower, std::int64_t rows);
  /// Declares a gradient final, so that it may be exchanged during the pass. Throws
  /// Error{invalid_argument} for a gradient that was declared before in this pass, and outside of a
  /// pass.
  void ready(int tower, std::size_t parameter);
  /// Ends the pass. Parameters that were not declared ready have no gradient on this tower.
  void push(int tower);
  /// Returns when the tower's gradients are the combination. On a device, this holds for work that
  /// you enqueue on its stream from here on. Throws the error that `fail` was given, or the error
  /// that occurred. Throws Error{no_progress} naming the towers that did not arrive in time. An
  /// error that ends one call ends all.
  void wait(int tower);
  /// Returns true if any tower had a gradient of the parameter in the last step that was waited
  /// for. If none had, the memory holds old values.
  bool has_gradient(std::size_t parameter) const;

  /// Ends every call with `error`, in all processes; the first error counts.
  void fail(const Status& error) noexcept;
  /// Returns the statistics of the exchange. Any thread may call it.
  StrategyStats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::towers
