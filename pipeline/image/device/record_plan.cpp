#include "pipeline/image/device/record_plan.h"

#include <bit>
#include <string>

#include "pipeline/image/device/facts.h"
#include "pipeline/image/device/layout.h"
#include "pipeline/jpeg/records/packed_row.h"

namespace penstock::jpeg {

static_assert(std::endian::native == std::endian::little);

std::optional<PackedImage> plan_record(const Record& record, const image::Geometry& geometry,
                                       int channels) {
  const Header& header = record.header;
  if (header.color == ColorModel::rgb && channels == 1) return std::nullopt;
  PackedImage image{facts_of(PlanKind::coefficients, header, geometry, channels), {}};
  DevicePlan& plan = image.plan;
  const DeviceLayout layout = layout_of(plan, geometry.canvas.height, geometry.canvas.width);
  if (!fits(layout)) return std::nullopt;
  if (layout.region.height == 0) return image;
  const BlockGrid grid(header);
  const std::size_t first = grid.first_part(layout.first_imcu, 0);
  const std::uint32_t begin = record.part(first).offset;
  std::uint32_t end = begin;
  plan.part_count = layout.part_count;
  for (std::int32_t i = 0; i < layout.part_count; ++i) {
    const std::size_t part = first + static_cast<std::size_t>(i);
    const DeviceStrip& strip = layout.strips[place_of(plan, layout, i).component];
    plan.parts[i] = end - begin;
    if (strip.needed == 0) {
      end = part + 1 < record.part_count ? record.part(part + 1).offset
                                         : static_cast<std::uint32_t>(record.payload.size());
    } else {
      const std::span<const std::byte> bytes = record.read_part(part);
      if (!open_row(bytes, strip.blocks).valid)
        throw Error(ErrorCode::data_loss,
                    "image record: part " + std::to_string(part) + " is no row of blocks");
      end = record.part(part).offset + static_cast<std::uint32_t>(bytes.size());
    }
    if (end < begin || end > record.payload.size())
      throw Error(ErrorCode::data_loss, "image record: its index is no order");
  }
  plan.parts[layout.part_count] = end - begin;
  const Box& region = layout.region;
  if (region.top == 0 && region.left == 0 &&
      region.height == both::divide_up(plan.height, plan.denominator) &&
      region.width == both::divide_up(plan.width, plan.denominator))
    record.check_rest();
  image.bytes = record.payload.subspan(begin, end - begin);
  return image;
}

}  // namespace penstock::jpeg
