// The names that TensorFlow's CNN benchmarks use for strategies.
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
};
const std::vector<VariableUpdate>& variable_updates();
/// Returns text such as "parameter_server, replicated, …".
std::string variable_update_names();

/// Returns the name of the strategy for this job. Throws UsageError for an unknown name, and for
/// one that is not possible in such a job; then the message says where it is. Also throws it if
/// `strategy` is given and differs.
std::string strategy_named(const std::string& variable_update, const cluster::Cluster& who,
                           const std::string& strategy);

}  // namespace penstock::tool
