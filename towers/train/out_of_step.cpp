#include "towers/train/out_of_step.h"

#include <cmath>

#include "towers/numbers.h"

namespace penstock::towers {
namespace {

std::string text_of(const NamedNumbers& parts) {
  std::string text = parts.name;
  for (const double number : parts.numbers) text += ":" + exact_text(number);
  return text;
}

}  // namespace

UpdateTexts updates_out_of_step(const ModelKind& kind, int towers) {
  NamedNumbers optimizer = parse_named_numbers(kind.optimizer, "optimizer");
  const bool has_momentum = optimizer.name == "momentum" || optimizer.name == "nesterov";
  if (towers < 2 || !has_momentum || optimizer.numbers.size() != 1)
    return {kind.optimizer, kind.schedule};
  const double share = towers * (1 - optimizer.numbers[0]);  // of the momentum that lateness leaves
  if (share < 1) {
    optimizer.numbers[0] = std::round((1 - share) * 1e6) / 1e6;
    return {text_of(optimizer), kind.schedule};
  }
  NamedNumbers schedule = parse_named_numbers(kind.schedule, "schedule");
  if (!schedule.numbers.empty()) schedule.numbers[0] /= share;
  return {"sgd", text_of(schedule)};
}

}  // namespace penstock::towers
