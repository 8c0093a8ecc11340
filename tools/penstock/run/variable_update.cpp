#include "tools/penstock/run/variable_update.h"

#include <algorithm>

#include "pipelines/usage_error.h"

namespace penstock::tool {

using towers::StrategyKind;

const std::vector<VariableUpdate>& variable_updates() {
  constexpr auto kNone = std::nullopt;
  static const std::vector<VariableUpdate> all{
      {"parameter_server", StrategyKind::parameter_device, StrategyKind::parameter_device,
       StrategyKind::sync_replicas},
      {"replicated", StrategyKind::replicated, StrategyKind::replicated, kNone},
      {"distributed_replicated", StrategyKind::spread, StrategyKind::spread,
       StrategyKind::sync_replicas},
      {"distributed_all_reduce", StrategyKind::replicated, StrategyKind::replicated, kNone},
      {"independent", StrategyKind::independent, kNone, kNone},
  };
  return all;
}

std::string variable_update_names() {
  std::string names;
  for (const VariableUpdate& one : variable_updates())
    names += (names.empty() ? "" : ", ") + std::string(one.name);
  return names;
}

std::string strategy_named(const std::string& variable_update, const cluster::Cluster& who,
                           const std::string& strategy) {
  const char* const flag = "--variable-update";
  const auto& all = variable_updates();
  const auto found = std::ranges::find(all, variable_update, &VariableUpdate::name);
  if (found == all.end())
    throw UsageError("there is no " + variable_update + "; there are: " + variable_update_names(),
                     flag);
  const bool servers = std::ranges::find(who.peers, cluster::Role::parameter_server,
                                         &cluster::Peer::role) != who.peers.end();
  const VariableUpdate::Kind kind = servers         ? found->servers
                                    : who.world > 1 ? found->several
                                                    : found->alone;
  if (!kind && servers && found->several)
    throw UsageError(
        variable_update + " keeps variables on towers: it is of jobs without parameter servers",
        flag);
  if (!kind)
    throw UsageError(
        variable_update + " is of one process: to train several by themselves, start each alone",
        flag);
  const std::string is(towers::name_of(*kind));
  if (!strategy.empty() && strategy != is)
    throw UsageError(
        variable_update + " is --strategy " + is + " in such a job, and not --strategy " + strategy,
        flag);
  return is;
}

}  // namespace penstock::tool
