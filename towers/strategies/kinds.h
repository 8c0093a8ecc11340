// The functions that make each strategy; make_strategy calls them.
#pragma once

#include <penstock/towers/strategy.h>

namespace penstock::towers {

// Each is defined in its own file.
StrategyPtr make_replicated(VariableStore& store, const StrategyOptions& options);
StrategyPtr make_parameter_device(VariableStore& store, const StrategyOptions& options);
StrategyPtr make_async(VariableStore& store, const StrategyOptions& options);
StrategyPtr make_sync_replicas(VariableStore& store, const StrategyOptions& options);
StrategyPtr make_independent(VariableStore& store, const StrategyOptions& options);

/// True for strategies that use `StrategyOptions::served`, which is then set.
bool is_served(const StrategyOptions& options) noexcept;

}  // namespace penstock::towers
