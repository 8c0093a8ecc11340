// Options that take a measure of evaluations.
#pragma once

#include <penstock/towers/evaluation.h>

#include "tools/penstock/commands/choose.h"

namespace penstock::tool {

inline constexpr const char* kMeasureHelp =
    "loss (default): the lowest; accuracy, auc: the highest";

inline void choose_measure(CLI::Option* option) {
  choose<towers::Measure>(option, {{"loss", towers::Measure::loss},
                                   {"accuracy", towers::Measure::accuracy},
                                   {"auc", towers::Measure::auc}});
}

}  // namespace penstock::tool
