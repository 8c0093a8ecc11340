#include "pipeline/core/rows.h"

#include <algorithm>

namespace penstock {

Element make_rows(const Spec& spec, const Names* names, std::size_t count, ReadContext& memory) {
  Element rows;
  rows.start(names);
  for (const ComponentSpec& component : spec) {
    const Shape shape = component.shape.prepend(static_cast<std::int64_t>(count));
    const std::size_t bytes = static_cast<std::size_t>(shape.volume()) * size_of(component.dtype);
    BufferPtr owner = memory.allocate(std::max<std::size_t>(bytes, 1));
    std::byte* const data = owner->data();
    rows.append(component.dtype, shape, data, std::move(owner));
  }
  return rows;
}

}  // namespace penstock
