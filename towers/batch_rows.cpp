#include "towers/batch_rows.h"

#include <algorithm>

namespace penstock::towers {

bool is_ragged(const Spec& element) {
  return std::ranges::any_of(element, [](const ComponentSpec& component) {
    return component.shape.has_rank() && component.shape.rank() > 0 &&
           component.shape[0] == Shape::kUnknown;
  });
}

Dataset batch_rows(const Dataset& elements, std::int64_t rows) {
  return is_ragged(elements.spec()) ? elements.ragged_batch(rows) : elements.batch(rows);
}

}  // namespace penstock::towers
