// The working memory in which a device decodes a JPEG's scan: see plan.h. For the host and for
// CUDA.
#pragma once

#include "pipeline/image/device/plan.h"
#include "pipeline/jpeg/header.h"

namespace penstock::jpeg::device_plan {

/// The number of bits over which a wrong state may last before decoding is given up. Areas of one
/// color never synchronise, but have few bits: at most 48,000 in 275 photographs.
inline constexpr std::int32_t kMostTravel = 1 << 17;
/// Bytes behind the last one of a scan, because it is read in words.
inline constexpr std::int64_t kScanSlack = 16;

PENSTOCK_BOTH inline bool is_sane_scan(const DevicePlan& p) {
  constexpr std::int32_t kMaxInterval = 65535;
  const DeviceScan& scan = p.scan;
  if (scan.bytes < 1 || scan.bytes > kDeviceImageBytes) return false;
  if (scan.restart_interval < 0 || scan.restart_interval > kMaxInterval) return false;
  if (scan.chunk_bits < kLeastChunkBits || scan.chunk_bits > kMostChunkBits) return false;
  for (int c = 0; c < 3; ++c)
    if (scan.dc[c] > 1 || scan.ac[c] > 1) return false;
  return true;
}

/// Returns a new part of the working memory, which ends at `end`.
PENSTOCK_BOTH inline std::int64_t take(std::int64_t& end, std::int64_t bytes) {
  const std::int64_t begin = end;
  end += (bytes + 15) / 16 * 16;
  return begin;
}

/// Plans the memory behind the coefficients, which end at `end`. REQUIRES: a layout with strips.
PENSTOCK_BOTH inline DeviceScanLayout scan_layout_of(const DevicePlan& p,
                                                     const DeviceLayout& layout,
                                                     std::int64_t& end) {
  constexpr std::int32_t kSide = kBlockSide;
  DeviceScanLayout scan;
  scan.coefficients = end;
  if (p.components == 1) {
    // Whatever its factors are, each block is an MCU.
    scan.mcus_across = both::divide_up(p.width, kSide);
    scan.mcus = scan.mcus_across * both::divide_up(p.height, kSide);
    scan.blocks_in_mcu = 1;
    scan.first_row = layout.strips[0].first_row;
    scan.last_row = layout.strips[0].last_row;
  } else {
    std::int32_t most_across = 1;
    std::int32_t most_down = 1;
    for (int c = 0; c < p.components; ++c) {
      most_across = both::most(most_across, p.horizontal[c]);
      most_down = both::most(most_down, p.vertical[c]);
      scan.blocks_in_mcu += p.horizontal[c] * p.vertical[c];
    }
    scan.mcus_across = both::divide_up(p.width, kSide * most_across);
    scan.mcus = scan.mcus_across * both::divide_up(p.height, kSide * most_down);
    scan.first_row = layout.first_imcu;
    scan.last_row = layout.last_imcu + 1;
  }
  const std::int32_t interval = p.scan.restart_interval;
  const auto bits = static_cast<std::int32_t>(8 * p.scan.bytes);
  scan.segments = interval == 0 ? 1 : both::divide_up(scan.mcus, interval);
  scan.most_chunks = both::divide_up(bits, p.scan.chunk_bits) + scan.segments;
  scan.most_rounds = both::least(scan.most_chunks, both::divide_up(kMostTravel, p.scan.chunk_bits));
  scan.bytes = take(end, p.scan.bytes + kScanSlack);
  scan.first_segment = take(
      end, (std::int64_t{scan.segments} + 1) * static_cast<std::int64_t>(sizeof(DeviceSegment)));
  scan.first_chunk =
      take(end, std::int64_t{scan.most_chunks} * static_cast<std::int64_t>(sizeof(DeviceChunk)));
  return scan;
}

}  // namespace penstock::jpeg::device_plan
