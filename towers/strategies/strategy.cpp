#include <penstock/towers/strategy.h>

#include <array>
#include <utility>

#include <penstock/error.h>

#include "towers/servers/served_strategy.h"
#include "towers/strategies/kinds.h"

namespace penstock::towers {
namespace {

constexpr std::array<std::pair<StrategyKind, std::string_view>, 7> kStrategyNames{{
    {StrategyKind::replicated, "replicated"},
    {StrategyKind::parameter_device, "parameter_device"},
    {StrategyKind::spread, "spread"},
    {StrategyKind::async, "async"},
    {StrategyKind::sync_replicas, "sync_replicas"},
    {StrategyKind::model_parallel, "model_parallel"},
    {StrategyKind::independent, "independent"},
}};

}  // namespace

StrategyKind parse_strategy(std::string_view name) {
  std::string known;
  for (const auto& [kind, text] : kStrategyNames) {
    if (text == name) return kind;
    known += (known.empty() ? "" : ", ") + std::string(text);
  }
  throw Error(ErrorCode::invalid_argument,
              "no strategy " + std::string(name) + "; there are: " + known);
}

std::string_view name_of(StrategyKind kind) noexcept {
  for (const auto& [other, text] : kStrategyNames)
    if (other == kind) return text;
  return "";
}

bool is_served(const StrategyOptions& options) noexcept {
  return options.served != nullptr &&
         (options.kind == StrategyKind::async || options.kind == StrategyKind::sync_replicas);
}

StrategyPtr make_strategy(VariableStore& store, const StrategyOptions& options) {
  if (is_served(options)) return std::make_unique<ServedStrategy>(store, options);
  switch (options.kind) {
    case StrategyKind::replicated:
    case StrategyKind::model_parallel:
      return make_replicated(store, options);
    case StrategyKind::parameter_device:
    case StrategyKind::spread:
      return make_parameter_device(store, options);
    case StrategyKind::async:
      return make_async(store, options);
    case StrategyKind::sync_replicas:
      return make_sync_replicas(store, options);
    case StrategyKind::independent:
      return make_independent(store, options);
  }
  throw Error(ErrorCode::internal, "an unknown strategy");
}

}  // namespace penstock::towers
