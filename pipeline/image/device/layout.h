// The layout that follows from a plan: see plan.h. For the host and for CUDA.
#pragma once

#include "pipeline/image/device/plan.h"
#include "pipeline/image/device/scan_layout.h"
#include "pipeline/jpeg/header.h"

namespace penstock::jpeg {

namespace device_plan {

PENSTOCK_BOTH inline bool within(std::int32_t begin, std::int32_t length, std::int32_t end) {
  return begin >= 0 && length >= 0 && begin <= end && length <= end - begin;
}

PENSTOCK_BOTH inline bool is_sane(const DevicePlan& p, std::int32_t out_height,
                                  std::int32_t out_width) {
  constexpr std::int32_t kMaxTarget = 65535;
  if (p.width < 1 || p.width > kMaxSide || p.height < 1 || p.height > kMaxSide) return false;
  if (p.components != 1 && p.components != 3) return false;
  if (p.color < 0 || p.color > 2 || (p.color == 0) != (p.components == 1)) return false;
  if (p.channels != 1 && (p.channels != 3 || p.components != 3)) return false;
  if (p.channels == 1 && p.color == 2) return false;
  if (p.denominator != 1 && p.denominator != 2 && p.denominator != 4 && p.denominator != 8)
    return false;
  std::int32_t blocks = 0;
  for (int c = 0; c < p.components; ++c) {
    if (p.horizontal[c] < 1 || p.horizontal[c] > kMaxFactor || p.vertical[c] < 1 ||
        p.vertical[c] > kMaxFactor)
      return false;
    blocks += p.horizontal[c] * p.vertical[c];
  }
  if (p.components == 3 && blocks > kMaxBlocksInMcu) return false;
  const bool resized = p.resized != 0;
  if (resized) {
    if (p.crop.height < 1 || p.crop.width < 1 || !within(p.crop.top, p.crop.height, p.height) ||
        !within(p.crop.left, p.crop.width, p.width) || p.target_height < 1 ||
        p.target_height > kMaxTarget || p.target_width < 1 || p.target_width > kMaxTarget)
      return false;
  } else if (p.denominator != 1) {
    return false;
  }
  return within(p.window.top, p.window.height, resized ? p.target_height : p.height) &&
         within(p.window.left, p.window.width, resized ? p.target_width : p.width) &&
         within(p.top, p.window.height, out_height) && within(p.left, p.window.width, out_width) &&
         p.part_count >= 0 && p.part_count <= kMaxPlanParts;
}

/// Chooses the axes of the resize, and the region that they need.
PENSTOCK_BOTH inline void choose_region(const DevicePlan& p, DeviceLayout& layout) {
  if (p.resized == 0) {
    layout.region = p.window;
    return;
  }
  image::ShrunkAxis rows =
      image::shrunk_axis(p.crop.top, p.crop.height, p.denominator, p.target_height);
  rows.axis.first = p.window.top;
  rows.axis.count = p.window.height;
  image::ShrunkAxis columns =
      image::shrunk_axis(p.crop.left, p.crop.width, p.denominator, p.target_width);
  columns.axis.first = p.window.left;
  columns.axis.count = p.window.width;
  columns.axis.mirrored = p.mirrored != 0;
  layout.rows = rows.axis;
  layout.columns = columns.axis;
  const image::Span y = image::span_of(rows.axis);
  const image::Span x = image::span_of(columns.axis);
  layout.first_row = -y.low;
  layout.first_column = -x.low;
  layout.region = {rows.first + y.low, columns.first + x.low, y.high - y.low, x.high - x.low};
}

PENSTOCK_BOTH inline bool choose_strips(const DevicePlan& p, const Box& region, bool& context,
                                        DeviceStrip* strips) {
  StripInput input;
  input.width = p.width;
  input.height = p.height;
  input.denominator = p.denominator;
  input.left = region.left;
  input.right = region.left + region.width;
  for (int c = 0; c < p.components; ++c) {
    input.most_across = both::most(input.most_across, p.horizontal[c]);
    input.most_down = both::most(input.most_down, p.vertical[c]);
  }
  context = false;
  for (int c = 0; c < p.components; ++c) {
    DeviceStrip& strip = strips[c];
    strip.needed = c == 0 || p.channels == 3 ? 1 : 0;
    input.horizontal = p.horizontal[c];
    input.vertical = p.vertical[c];
    input.needed = strip.needed != 0;
    static_cast<StripPlan&>(strip) = plan_strip(input);
    if (!strip.possible) return false;
    context = context || strip.has_context();
    strip.blocks = both::divide_up(p.width * p.horizontal[c], input.most_across * 8);
  }
  return true;
}

/// Returns the number of rows of blocks of component `c` in rows [0, imcu) of MCUs.
PENSTOCK_BOTH inline std::int32_t rows_above(const DevicePlan& p, int c, std::int32_t most_down,
                                             std::int32_t imcu) {
  const std::int32_t down = both::divide_up(p.height * p.vertical[c], most_down * 8);
  return both::least(imcu * p.vertical[c], down);
}

}  // namespace device_plan

/// Returns the layout for an output of this size. Whatever the plan holds, everything that a
/// fitting layout names lies within kDeviceImageBytes and within the JPEG.
PENSTOCK_BOTH inline DeviceLayout layout_of(const DevicePlan& p, std::int32_t out_height,
                                            std::int32_t out_width) {
  using namespace device_plan;  // NOLINT(google-build-using-namespace)
  DeviceLayout layout;
  const bool scanned = p.kind == PlanKind::jpeg;
  if ((p.kind != PlanKind::coefficients && !scanned) || !is_sane(p, out_height, out_width) ||
      (scanned && !is_sane_scan(p)))
    return layout;
  if (p.window.height == 0 || p.window.width == 0) {
    layout.fit = PlanFit::fits;
    return layout;
  }
  choose_region(p, layout);
  const Box& region = layout.region;
  if (region.height < 1 || region.width < 1 ||
      !within(region.top, region.height, both::divide_up(p.height, p.denominator)) ||
      !within(region.left, region.width, both::divide_up(p.width, p.denominator)))
    return layout;
  bool context = false;
  if (!choose_strips(p, region, context, layout.strips)) {
    layout.fit = PlanFit::sampling;
    return layout;
  }
  std::int32_t most_down = 1;
  for (int c = 0; c < p.components; ++c) most_down = both::most(most_down, p.vertical[c]);
  const std::int32_t imcu_height = 8 / p.denominator * most_down;
  const std::int32_t imcu_rows = both::divide_up(p.height, most_down * 8);
  const std::int32_t bottom = region.top + region.height - 1;
  layout.first_imcu = both::most(region.top - (context ? most_down + 1 : 0), 0) / imcu_height;
  layout.last_imcu = both::least(bottom / imcu_height, imcu_rows - 1);
  if (context && bottom % imcu_height >= imcu_height - most_down)
    layout.last_imcu = both::least(layout.last_imcu + 1, imcu_rows - 1);
  layout.fit = PlanFit::size;
  std::int64_t end = 0;
  for (int c = 0; c < p.components; ++c) {
    DeviceStrip& strip = layout.strips[c];
    strip.first_row = rows_above(p, c, most_down, layout.first_imcu);
    strip.last_row = rows_above(p, c, most_down, layout.last_imcu + 1);
    layout.part_count += strip.last_row - strip.first_row;
    if (strip.needed == 0) continue;
    if (strip.first_block >= strip.last_block || strip.first_row >= strip.last_row) {
      layout.fit = PlanFit::damaged;
      return layout;
    }
    const std::int64_t across = strip.last_block - strip.first_block;
    strip.stride = across * strip.side;
    if (scanned)
      strip.coefficients = take(end, across * (strip.last_row - strip.first_row) * kBlockSize * 2);
  }
  if (layout.part_count > kMaxPlanParts) return layout;
  std::int64_t scan_end = end;
  if (scanned) layout.scan = scan_layout_of(p, layout, scan_end);
  for (int c = 0; c < p.components; ++c) {
    DeviceStrip& strip = layout.strips[c];
    if (strip.needed != 0)
      strip.offset = take(end, strip.stride * (strip.last_row - strip.first_row) * strip.side);
  }
  if (p.resized != 0) {
    layout.mixed =
        take(end, std::int64_t{region.height} * p.window.width * both::most(p.channels, 1));
    const auto entry = [](const image::Axis& axis) {
      const std::int64_t weights = image::scaling_of(axis).stride;
      return static_cast<std::int64_t>(sizeof(DeviceWeights)) + (weights * 2 + 3) / 4 * 4;
    };
    layout.row_entry = entry(layout.rows);
    layout.column_entry = entry(layout.columns);
    layout.row_weights = take(end, layout.row_entry * p.window.height);
    layout.column_weights = take(end, layout.column_entry * p.window.width);
  }
  layout.bytes = both::most(end, scan_end);
  if (layout.bytes <= kDeviceImageBytes) layout.fit = PlanFit::fits;
  return layout;
}

/// Returns the component and row of a part. REQUIRES: a layout that fits, and a part below its
/// part_count.
PENSTOCK_BOTH inline PartPlace place_of(const DevicePlan& p, const DeviceLayout& layout,
                                        std::int32_t part) {
  std::int32_t most_down = 1;
  std::int32_t per_imcu = 0;
  for (int c = 0; c < p.components; ++c) {
    most_down = both::most(most_down, p.vertical[c]);
    per_imcu += p.vertical[c];
  }
  // All rows of MCUs but the image's last are full.
  const std::int32_t imcu = layout.first_imcu + part / per_imcu;
  std::int32_t rest = part % per_imcu;
  for (int c = 0; c < p.components; ++c) {
    const std::int32_t first = device_plan::rows_above(p, c, most_down, imcu);
    const std::int32_t rows = device_plan::rows_above(p, c, most_down, imcu + 1) - first;
    if (rest < rows) return {c, first + rest};
    rest -= rows;
  }
  return {};
}

}  // namespace penstock::jpeg
