// The names of strategies: ours, and those that TensorFlow's CNN benchmarks use.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/towers/strategy.h>

#include "cluster/cluster.h"

namespace penstock::tool {

/// A value of their `--variable_update`, and the strategies that it means here. Source:
/// tensorflow/benchmarks, scripts/tf_cnn_benchmarks/variable_mgr.py.
struct VariableUpdate {
  using Kind = std::optional<towers::StrategyKind>;  ///< nothing: not possible there
  std::string_view name;
  Kind alone;    ///< in one process
  Kind several;  ///< in a job of several processes, without parameter servers
  Kind servers;  ///< in a job with parameter servers
  /// `--strategy async` is possible instead, which is their --cross_replica_sync=false.
  bool may_be_async = false;
};
const std::vector<VariableUpdate>& variable_updates();
/// Returns text such as "parameter_server, replicated, …".
std::string variable_update_names();

/// Returns the name of the strategy for this job. Throws UsageError for an unknown name, and for
/// one that is not possible in such a job; then the message says where it is. Also throws it if
/// `strategy` is given and is none that the name allows there.
std::string strategy_named(const std::string& variable_update, const cluster::Cluster& who,
                           const std::string& strategy);

/// Returns the strategy of this name. Throws Error{invalid_argument} for an unknown name, and
/// UsageError for a strategy that the processes of such a job can't have together.
towers::StrategyKind parse_strategy(const std::string& name, const cluster::Cluster& who);

}  // namespace penstock::tool
