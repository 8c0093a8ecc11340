// How the gradients of several towers become one model.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/error.h>

#include "towers/optimizer.h"
#include "towers/variables.h"

namespace penstock::towers {

/// What becomes of towers' gradients, which are means over each one's rows.
enum class Combine {
  average,  ///< weighted by the towers' rows: the mean over all rows
  sum,      ///< of the towers' means
};

enum class StrategyKind {
  replicated,        ///< every tower adds up all gradients, and updates a copy of its own
  parameter_device,  ///< one copy is updated, by tower 0, and copied to the others
  spread,            ///< the same, each variable by the tower whose turn it is
  async,             ///< each tower updates the one copy as soon as it has a gradient
  sync_replicas,     ///< the first so many gradients make an update, stale ones are dropped
  model_parallel,    ///< one tower, whose layers are spread over the devices
};
StrategyKind parse_strategy(std::string_view name);
std::string_view name_of(StrategyKind kind) noexcept;

struct StrategyOptions {
  StrategyKind kind = StrategyKind::replicated;
  Combine combine = Combine::average;
  UpdateOptions update{};
  int aggregate = 0;       ///< of sync_replicas: gradients for each update; 0: as many as towers
  int max_staleness = -1;  ///< of async: gradients that are older are dropped; -1: none
  /// Of those whose towers exchange gradients: bytes that are exchanged in one piece, as soon as
  /// the backward passes have made them; small gradients are packed together.
  std::size_t bucket_bytes = std::size_t{4} << 20;
  double timeout_s = 600;  ///< how long towers wait for each other
};

struct StrategyStats {
  std::uint64_t applied = 0;               ///< gradients that went into an update
  std::uint64_t dropped = 0;               ///< gradients that were too old
  std::vector<std::uint64_t> staleness{};  ///< how many were applied that were i updates old
};

/// Towers call `update` once a step, each from its own thread, and before it perhaps `begin`;
/// everything else is called while no tower is in a step.
class Strategy {
 public:
  virtual ~Strategy() = default;

  /// The tower's backward pass begins, over a batch of `rows`: gradients may be taken from here on,
  /// each when the variable tells that it is final. Throws what `fail` was given.
  virtual void begin(int /*tower*/, std::int64_t /*rows*/) {}
  /// The pass has ended. Takes the tower's gradients, of a batch of `rows`; when it returns, the
  /// tower's values are those of its next step. Throws what `fail` was given, and
  /// Error{no_progress}.
  virtual void update(int tower, std::int64_t rows) = 0;
  /// The tower makes no more steps before `settle`.
  virtual void leave(int /*tower*/) {}
  /// Ends all waiting with `error`.
  virtual void fail(const Status& error) noexcept = 0;

  /// Updates so far.
  virtual std::uint64_t step() const = 0;
  /// True if all towers make a step together, so that results do not depend on who is faster.
  virtual bool synchronous() const noexcept { return true; }
  /// Makes every tower's values the current ones, and lets towers that left come again.
  virtual void settle() {}
  virtual StrategyStats stats() const { return {}; }

  /// What optimizers remember of a variable, to be saved.
  virtual Slots slots(std::size_t variable) = 0;
  /// Goes on behind update `step`: the values of tower 0 and the slots have been restored.
  virtual void restore(std::uint64_t step) = 0;
};
using StrategyPtr = std::unique_ptr<Strategy>;

/// `store` is packed and outlives the strategy. Throws Error{invalid_argument} for options that do
/// not fit together.
StrategyPtr make_strategy(VariableStore& store, const StrategyOptions& options);

// Each in a file of its own.
StrategyPtr make_replicated(VariableStore& store, const StrategyOptions& options);
StrategyPtr make_parameter_device(VariableStore& store, const StrategyOptions& options);
StrategyPtr make_async(VariableStore& store, const StrategyOptions& options);
StrategyPtr make_sync_replicas(VariableStore& store, const StrategyOptions& options);

}  // namespace penstock::towers
