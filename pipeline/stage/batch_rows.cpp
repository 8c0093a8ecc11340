#include "pipeline/stage/batch_rows.h"

#include <algorithm>

namespace penstock {

std::optional<BatchRows> rows_through(const Node& input, const Spec& output) {
  std::optional<BatchRows> rows = input.batch_rows();
  if (!rows || input.spec() == output) return rows;
  const auto outermost = [](const Spec& spec) {
    std::optional<std::int64_t> common;
    for (const ComponentSpec& component : spec) {
      const Shape& shape = component.shape;
      const std::int64_t here = !shape.has_rank()   ? Shape::kUnknown
                                : shape.rank() == 0 ? -2
                                                    : shape[0];
      if (common && *common != here) return std::optional<std::int64_t>();
      common = here;
    }
    return common;
  };
  const std::optional<std::int64_t> was = rows->divisible ? outermost(input.spec()) : std::nullopt;
  const std::optional<std::int64_t> is = outermost(output);
  if (is && is == was) return rows;
  rows->padded = false;
  rows->divisible = rows->divisible && is && *is != -2;
  rows->fewer = is && *is >= 0 ? BatchRows::Fewer::none : BatchRows::Fewer::any;
  rows->full = rows->most = is ? std::max<std::int64_t>(*is, 0) : 0;
  return rows;
}

std::optional<BatchRows> rows_of_any(const std::vector<NodePtr>& inputs, std::size_t count) {
  std::optional<BatchRows> all = inputs[0]->batch_rows();
  for (std::size_t i = 1; i < count && all; ++i) {
    const std::optional<BatchRows> rows = inputs[i]->batch_rows();
    if (!rows || rows->padded != all->padded) return std::nullopt;
    if (rows->full != all->full) all->full = 0;
    all->most = all->most > 0 && rows->most > 0 ? std::max(all->most, rows->most) : 0;
    all->fewer = std::max(all->fewer, rows->fewer);
    all->divisible = all->divisible && rows->divisible;
    all->kept = all->kept || rows->kept;
  }
  if (all && all->full == 0) all->fewer = BatchRows::Fewer::any;
  if (all && all->fewer == BatchRows::Fewer::last) all->fewer = BatchRows::Fewer::any;
  return all;
}

std::optional<BatchRows> rows_in_any_order(const Node& input) {
  std::optional<BatchRows> rows = input.batch_rows();
  if (rows && rows->fewer == BatchRows::Fewer::last) rows->fewer = BatchRows::Fewer::any;
  return rows;
}

}  // namespace penstock
