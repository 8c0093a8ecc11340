// The first step of decoding a JPEG's scan with a team: removes stuffing, and finds the restart
// intervals. Source: ITU T.81, B.1.1.5 and F.1.2.3.
#pragma once

#include <cstdint>

#include "pipeline/image/device/plan.h"
#include "staging/reconstruct/expand.h"
#include "staging/reconstruct/sums.h"

namespace penstock::reconstruct {

/// The bytes of a scan without stuffing. They are stored in words whose highest byte comes first.
/// This takes little-endian memory.
struct ScanBytes {
  std::uint8_t* memory = nullptr;

  PENSTOCK_BOTH void put(std::uint32_t at, std::uint32_t byte) const {
    memory[at ^ 3U] = static_cast<std::uint8_t>(byte);
  }
  PENSTOCK_BOTH std::uint32_t word(std::uint32_t i) const {
    return reinterpret_cast<const std::uint32_t*>(memory)[i];
  }
};

/// The meaning of a byte behind another one.
enum class ByteKind {
  nothing,  ///< the first byte of two
  data,
  restart,  ///< a marker
  end       ///< another marker, or fill bytes
};
PENSTOCK_BOTH inline ByteKind kind_of_byte(std::uint32_t before, std::uint32_t byte) {
  if (before != 0xff) return byte == 0xff ? ByteKind::nothing : ByteKind::data;
  if (byte == 0) return ByteKind::data;
  return byte >= 0xd0 && byte <= 0xd7 ? ByteKind::restart : ByteKind::end;
}

/// Calls `visit(kind, value)` for the bytes of a range, up to the first end.
template <typename Visit>
PENSTOCK_BOTH void visit_bytes(const Bytes& in, GroupRange range, const Visit& visit) {
  std::uint32_t before = range.begin == 0 ? 0 : in[range.begin - 1];
  for (std::uint32_t i = range.begin; i < range.end; ++i) {
    const std::uint32_t byte = in[i];
    const ByteKind kind = kind_of_byte(before, byte);
    visit(kind, kind == ByteKind::data && before == 0xff ? 0xffU : byte);
    if (kind == ByteKind::end) return;
    before = byte;
  }
}

/// Writes the bytes of a scan, and where each of its segments begins. The last one ends at the next
/// entry. Returns false if these are not `segments` segments, divided by restart markers in order
/// and followed by an EOI. The output has room for all bytes of the input,
/// and twelve more.
template <typename Team>
PENSTOCK_BOTH bool unstuff(const Team& team, const Bytes& in, const ScanBytes& out,
                           jpeg::DeviceSegment* segments, std::int32_t count, GroupSums& sums) {
  constexpr int kData = 0;
  constexpr int kRestarts = 1;
  constexpr int kEnds = 2;
  team.each(kGroups, [&](int group) {
    std::uint32_t data = 0;
    std::uint32_t restarts = 0;
    std::uint32_t ends = 0;
    visit_bytes(in, range_of(group, in.size), [&](ByteKind kind, std::uint32_t) {
      data += kind == ByteKind::data ? 1 : 0;
      restarts += kind == ByteKind::restart ? 1 : 0;
      ends += kind == ByteKind::end ? 1 : 0;
    });
    sums.of[kData][group + 1] = data;
    sums.of[kRestarts][group + 1] = restarts;
    sums.of[kEnds][group + 1] = ends;
    sums.of[3][group + 1] = 0;
  });
  add_up_groups(team, sums);
  if (sums.of[kEnds][kGroups] == 0) return false;
  return !team.any(kGroups, [&](int group) {
    if (sums.of[kEnds][group] != 0) return false;  // behind the end
    std::uint32_t at = sums.of[kData][group];
    std::uint32_t restarts = sums.of[kRestarts][group];
    bool good = true;
    if (group == 0) segments[0].byte = 0;
    visit_bytes(in, range_of(group, in.size), [&](ByteKind kind, std::uint32_t value) {
      if (kind == ByteKind::data) {
        out.put(at++, value);
      } else if (kind == ByteKind::restart) {
        good = good && value == 0xd0 + restarts % 8;
        ++restarts;
        if (restarts < static_cast<std::uint32_t>(count)) segments[restarts].byte = at;
      } else if (kind == ByteKind::end) {
        good = good && value == 0xd9 && restarts + 1 == static_cast<std::uint32_t>(count);
        segments[count].byte = at;
        for (std::uint32_t k = 0; k < 8; ++k) out.put(at + k, 0);
      }
    });
    return !good;
  });
}

}  // namespace penstock::reconstruct
