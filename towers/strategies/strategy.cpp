#include "towers/strategies/strategy.h"

#include <array>
#include <utility>

#include <penstock/error.h>

#include "towers/gpu/gpu.h"
#include "towers/gpu/nccl_collective.h"

namespace penstock::towers {
namespace {

constexpr std::array<std::pair<StrategyKind, std::string_view>, 6> kNames{{
    {StrategyKind::replicated, "replicated"},
    {StrategyKind::parameter_device, "parameter_device"},
    {StrategyKind::spread, "spread"},
    {StrategyKind::async, "async"},
    {StrategyKind::sync_replicas, "sync_replicas"},
    {StrategyKind::model_parallel, "model_parallel"},
}};

}  // namespace

StrategyKind parse_strategy(std::string_view name) {
  std::string known;
  for (const auto& [kind, text] : kNames) {
    if (text == name) return kind;
    known += (known.empty() ? "" : ", ") + std::string(text);
  }
  throw Error(ErrorCode::invalid_argument,
              "no strategy " + std::string(name) + "; there are: " + known);
}

std::string_view name_of(StrategyKind kind) noexcept {
  for (const auto& [other, text] : kNames)
    if (other == kind) return text;
  return "";
}

StrategyPtr make_strategy(VariableStore& store, const StrategyOptions& options) {
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
  }
  throw Error(ErrorCode::internal, "an unknown strategy");
}

std::unique_ptr<Collective> make_collective(VariableStore& store, double timeout_s) {
  std::vector<Gpu*> gpus;
  for (int tower = 0; tower < store.towers(); ++tower)
    if (Gpu* gpu = store.gpu(tower)) gpus.push_back(gpu);
  if (gpus.empty()) return make_host_collective(store.towers(), timeout_s);
  if (static_cast<int>(gpus.size()) < store.towers())
    throw Error(ErrorCode::invalid_argument,
                "towers that exchange gradients must be all on GPUs, or all on the host");
  return make_nccl_collective(gpus, timeout_s);
}

void combine_gradients(VariableStore& store, Collective& collective, int tower, std::int64_t rows,
                       Combine combine) {
  const std::span<Variable* const> variables = store.of(tower);
  // Of each variable the rows, and the towers, that have a gradient.
  std::vector<double> totals(2 * variables.size());
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const bool mine = variables[i]->has_gradient && rows > 0;
    totals[2 * i] = mine ? static_cast<double>(rows) : 0;
    totals[2 * i + 1] = mine ? 1 : 0;
  }
  collective.sum(tower, std::span<double>(totals));
  for (std::size_t i = 0; i < variables.size(); ++i) {
    Variable& variable = *variables[i];
    Gpu* gpu = variable.gpu;
    if (!variable.has_gradient || rows == 0) {
      run(gpu, FillPlan{variable.gradient.data(), 0}, variable.gradient.size());
    } else if (combine == Combine::average && totals[2 * i + 1] > 1) {
      const auto weight = static_cast<float>(static_cast<double>(rows) / totals[2 * i]);
      run(gpu, ScalePlan{variable.gradient.data(), weight}, variable.gradient.size());
    }
    variable.has_gradient = totals[2 * i] > 0;
  }
  collective.sum(tower, store.gradients(tower));
}

}  // namespace penstock::towers
