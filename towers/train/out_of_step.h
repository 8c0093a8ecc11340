// Updates for towers that do not step together.
#pragma once

#include <string>

#include <penstock/towers/model.h>

namespace penstock::towers {

/// An optimizer and a schedule, as make_optimizer and Schedule::parse read them.
struct UpdateTexts {
  std::string optimizer;
  std::string schedule;
};

/// Returns a model's updates for this many towers of StrategyKind::async. They make an update of
/// each gradient, so there are as many updates for each step together. Gradients that come late act
/// as momentum: 1 - 1/N of N towers (Mitliagkas et al., 2016, "Asynchrony begets momentum"). So the
/// momentum M of the model becomes 1 - N(1 - M), with which a row of data changes the variables as
/// much as it does in steps together. Where that is below 0, there is no momentum, and the rate is
/// divided by N(1 - M). Other optimizers stay as they are.
UpdateTexts updates_out_of_step(const ModelKind& kind, int towers);

}  // namespace penstock::towers
