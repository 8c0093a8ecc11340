#include "pipeline/image/device/facts.h"

#include <algorithm>

#include <penstock/error.h>

#include "pipeline/image/pass_runner.h"

namespace penstock::jpeg {

namespace {

Box box_of(const image::Rect& rect) noexcept {
  return {rect.top, rect.left, rect.height, rect.width};
}

}  // namespace

DevicePlan facts_of(PlanKind kind, const Header& header, const image::Geometry& geometry,
                    int channels) {
  DevicePlan plan;
  plan.kind = kind;
  plan.width = header.width;
  plan.height = header.height;
  plan.components = header.component_count;
  plan.color = static_cast<std::int32_t>(header.color);
  plan.channels = header.color == ColorModel::gray ? 1 : channels;
  plan.denominator = image::choose_denominator(geometry);
  for (int c = 0; c < header.component_count; ++c) {
    const auto place = static_cast<std::size_t>(c);
    const Component& component = header.components[place];
    plan.horizontal[c] = component.horizontal;
    plan.vertical[c] = component.vertical;
    const auto table = static_cast<std::size_t>(component.quantisation);
    std::ranges::copy(header.quantisation[table].values, plan.quantisation[c]);
  }
  plan.crop = box_of(geometry.source_crop);
  plan.resized = geometry.resized ? 1 : 0;
  plan.target_height = geometry.target.height;
  plan.target_width = geometry.target.width;
  plan.window = box_of(geometry.window);
  plan.mirrored = geometry.mirrored ? 1 : 0;
  plan.top = geometry.top;
  plan.left = geometry.left;
  return plan;
}

bool fits(const DeviceLayout& layout) {
  if (layout.fit == PlanFit::damaged)
    throw Error(ErrorCode::internal, "a plan for a device that no device takes");
  return layout.fit == PlanFit::fits;
}

}  // namespace penstock::jpeg
