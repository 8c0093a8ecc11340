// Strategies: how the gradients of several towers become one model.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/error.h>
#include <penstock/towers/optimizer.h>
#include <penstock/towers/variables.h>

namespace penstock::towers {

class Peers;
struct ServedJob;

/// The combination of the towers' gradients, which are means over each tower's rows.
enum class Combine {
  average,  ///< weighted by the towers' rows: the mean over all rows
  sum,      ///< of the towers' means
};

/// The way in which towers share gradients and variables.
enum class StrategyKind {
  replicated,        ///< every tower sums all gradients, and updates a copy of its own
  parameter_device,  ///< tower 0 updates one copy, which is copied to the others
  spread,            ///< the same, but the towers take turns with the variables
  async,             ///< each tower updates the one copy as soon as it has a gradient
  sync_replicas,     ///< the first `aggregate` gradients make an update; stale ones are dropped
  model_parallel,    ///< one tower, whose layers are spread over the devices
  independent,       ///< each tower trains by itself; tower 0's variables are the result
};
/// Returns the strategy of that name. Throws Error{invalid_argument} for an unknown name.
StrategyKind parse_strategy(std::string_view name);
/// Returns the name of the strategy, "replicated".
std::string_view name_of(StrategyKind kind) noexcept;

/// The options of a strategy.
struct StrategyOptions {
  StrategyKind kind = StrategyKind::replicated;  ///< which strategy
  Combine combine = Combine::average;            ///< how gradients become one
  UpdateOptions update{};                        ///< how a gradient changes variables
  /// For sync_replicas: gradients for each update; 0: as many as towers.
  int aggregate = 0;
  /// For async: the age, in updates, above which gradients are dropped; -1: none are dropped.
  int max_staleness = -1;
  /// For strategies whose towers exchange gradients: bytes that are exchanged in one piece, as soon
  /// as the backward passes have made them. Small gradients are packed together.
  std::size_t bucket_bytes = std::size_t{4} << 20;
  double timeout_s = 600;  ///< how long towers wait for each other
  /// For GPUs: sends gradients through NCCL even if one device has them all and there is nothing to
  /// add. So one GPU shows that NCCL works on this machine. Values stay the same.
  bool nccl_alone = false;
  /// Other processes whose towers take part; null: none. For the synchronous strategies on the
  /// host.
  Peers* peers = nullptr;
  /// Parameter servers that hold the variables of async and sync_replicas; null: this process holds
  /// them. Other strategies ignore it.
  const ServedJob* served = nullptr;
  /// For the synchronous strategies on the host: returns a lock that is held while a tower computes
  /// its update. The trainer sets it where several towers take turns on a device. Empty: all towers
  /// compute at once.
  std::function<std::unique_lock<std::mutex>(int tower)> turn{};
  /// Receives the beginning and the end of each exchange of a step's gradients; not for GPUs. The
  /// thread that exchanges calls it. It may not throw. Empty: no call.
  std::function<void(std::uint64_t step, std::chrono::steady_clock::time_point begin,
                     std::chrono::steady_clock::time_point end)>
      exchanged{};
};

/// The statistics of a strategy.
struct StrategyStats {
  std::uint64_t applied = 0;  ///< gradients that went into an update
  std::uint64_t dropped = 0;  ///< gradients that were too old
  /// Element i counts the applied gradients that were i updates old.
  std::vector<std::uint64_t> staleness{};
  // For towers that exchange gradients in step:
  /// Seconds in which sums were made, also of other processes' gradients.
  double exchange_s = 0;
  /// Seconds of these in which no backward pass of this process ran any more.
  double exposed_s = 0;
};

/// The rule by which towers update variables. Each tower calls `update` once a step, from its own
/// thread, and may call `begin` before it. Everything else is called while no tower is in a step.
class Strategy {
 public:
  virtual ~Strategy() = default;

  /// Begins the tower's backward pass, over a batch of `rows`. From here on, gradients may be taken
  /// as soon as the variable tells that they are final. Throws the error that `fail` was given.
  virtual void begin(int /*tower*/, std::int64_t /*rows*/) {}
  /// Ends the pass and takes the tower's gradients, of a batch of `rows`. When it returns, the
  /// tower's values are those of its next step. Throws the error that `fail` was given, and
  /// Error{no_progress}.
  virtual void update(int tower, std::int64_t rows) = 0;
  /// Ends the tower's steps until `settle`.
  virtual void leave(int /*tower*/) {}
  /// Ends all waiting with `error`.
  virtual void fail(const Status& error) noexcept = 0;

  /// Returns the number of updates so far.
  virtual std::uint64_t step() const = 0;
  /// Returns true if all towers make a step together, so that results do not depend on which is
  /// faster.
  virtual bool synchronous() const noexcept { return true; }
  /// Makes every tower's values the current ones, and lets towers that left return.
  virtual void settle() {}
  /// Returns the statistics so far. Any thread may call it, at any time.
  virtual StrategyStats stats() const { return {}; }

  /// Returns the optimizer's arrays of a variable, to be saved.
  virtual Slots slots(std::size_t variable) = 0;
  /// Continues after update `step`: the values of tower 0 and the slots have been restored.
  virtual void restore(std::uint64_t step) = 0;
};
/// The owner of a strategy.
using StrategyPtr = std::unique_ptr<Strategy>;

/// Returns a strategy for the variables in `store`, which is packed and outlives the strategy.
/// Throws Error{invalid_argument} for options that do not fit together.
StrategyPtr make_strategy(VariableStore& store, const StrategyOptions& options);

}  // namespace penstock::towers
