#include "tools/penstock/run/variable_update.h"

#include <algorithm>

#include "pipelines/text.h"
#include "pipelines/usage_error.h"

namespace penstock::tool {

using towers::StrategyKind;

const std::vector<VariableUpdate>& variable_updates() {
  constexpr auto kNone = std::nullopt;
  static const std::vector<VariableUpdate> all{
      {"parameter_server", StrategyKind::parameter_device, StrategyKind::parameter_device,
       StrategyKind::sync_replicas, true},
      {"replicated", StrategyKind::replicated, StrategyKind::replicated, kNone},
      {"distributed_replicated", StrategyKind::spread, StrategyKind::spread,
       StrategyKind::sync_replicas},
      {"distributed_all_reduce", StrategyKind::replicated, StrategyKind::replicated, kNone},
      {"collective_all_reduce", StrategyKind::replicated, StrategyKind::replicated, kNone},
      {"horovod", StrategyKind::replicated, StrategyKind::replicated, kNone},
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
  const bool servers = who.lists(cluster::Role::parameter_server);
  const VariableUpdate::Kind kind = servers         ? found->servers
                                    : who.world > 1 ? found->several
                                                    : found->alone;
  if (!kind && servers && found->several)
    throw UsageError(
        variable_update + " keeps variables on towers, so the job must not have parameter servers",
        flag);
  if (!kind)
    throw UsageError(
        variable_update + " is for one process: to train several independently, start each alone",
        flag);
  const std::string is(towers::name_of(*kind));
  const std::string async(towers::name_of(StrategyKind::async));
  if (strategy.empty() || strategy == is) return is;
  if (found->may_be_async && strategy == async) return async;
  throw UsageError(variable_update + " means --strategy " + is +
                       (found->may_be_async ? " or " + async : "") +
                       " in such a job, not --strategy " + strategy,
                   flag);
}

namespace {

StrategyKind known_strategy(const std::string& name) {
  try {
    return towers::parse_strategy(name);
  } catch (const Error& error) {
    std::vector<std::string> known;
    for (int kind = 0; !towers::name_of(StrategyKind{kind}).empty(); ++kind)
      known.emplace_back(towers::name_of(StrategyKind{kind}));
    throw UsageError(error.cause() + suggestion(name, known), "--strategy");
  }
}

}  // namespace

StrategyKind parse_strategy(const std::string& name, const cluster::Cluster& who) {
  const StrategyKind kind = known_strategy(name);
  if (who.world > 1 && (kind == StrategyKind::independent || kind == StrategyKind::model_parallel))
    throw UsageError(name + " is for one process, not for a job of several", "--strategy");
  return kind;
}

}  // namespace penstock::tool
