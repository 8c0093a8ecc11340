#include "pipeline/image/device/jpeg_plan.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "pipeline/image/device/codes.h"
#include "pipeline/image/device/facts.h"
#include "pipeline/image/device/layout.h"

namespace penstock::jpeg {

namespace {

/// Two tables of a plan, and the specs from which they were filled.
class Pair {
 public:
  Pair(DeviceHuffman* tables, bool dc) : tables_(tables), dc_(dc) {}

  /// Returns the number of the table for `spec`; -1 if there is no room, or if it is no code.
  int number_of(const HuffmanSpec& spec) {
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      if (specs_[i] != nullptr && *specs_[i] == spec) return static_cast<int>(i);
      if (specs_[i] != nullptr) continue;
      specs_[i] = &spec;
      std::ranges::copy(spec.counts, tables_[i].counts);
      std::ranges::copy(spec.symbols, tables_[i].symbols);
      DeviceCode code;
      return find_code(tables_[i], dc_, code) ? static_cast<int>(i) : -1;
    }
    return -1;
  }

 private:
  DeviceHuffman* tables_;
  bool dc_;
  std::array<const HuffmanSpec*, 2> specs_{};
};

}  // namespace

std::optional<PackedImage> plan_jpeg(const Header& header, std::span<const std::byte> file,
                                     const image::Geometry& geometry, int channels,
                                     int chunk_bits) {
  if (header.color == ColorModel::rgb && channels == 1) return std::nullopt;
  PackedImage image{facts_of(PlanKind::jpeg, header, geometry, channels), {}};
  image.plan.scan = DeviceScan{};
  DeviceScan& scan = image.plan.scan;
  image.bytes = file.subspan(header.scan);
  if (image.bytes.empty() || image.bytes.size() > static_cast<std::size_t>(kDeviceImageBytes))
    return std::nullopt;
  scan.bytes = static_cast<std::uint32_t>(image.bytes.size());
  scan.restart_interval = header.restart_interval;
  scan.chunk_bits = chunk_bits;
  Pair dcs(scan.tables, true);
  Pair acs(scan.tables + 2, false);
  for (int c = 0; c < header.component_count; ++c) {
    const Component& component = header.components[static_cast<std::size_t>(c)];
    const int dc = dcs.number_of(header.dc[static_cast<std::size_t>(component.dc)]);
    const int ac = acs.number_of(header.ac[static_cast<std::size_t>(component.ac)]);
    if (dc < 0 || ac < 0) return std::nullopt;
    scan.dc[c] = static_cast<std::uint8_t>(dc);
    scan.ac[c] = static_cast<std::uint8_t>(ac);
  }
  if (!fits(layout_of(image.plan, geometry.canvas.height, geometry.canvas.width)))
    return std::nullopt;
  return image;
}

}  // namespace penstock::jpeg
