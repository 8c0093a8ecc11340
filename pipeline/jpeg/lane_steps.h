// The vector loops of Lanes.
#pragma once

#include <cstdint>

#include "pipeline/jpeg/lanes.h"

namespace penstock::jpeg {

bool lanes_supported() noexcept;

/// Decodes until some lanes have no blocks left in their strips. Returns these lanes.
std::uint32_t run_lanes(Lanes& lanes) noexcept;

/// Unstuffs by vectors. Some bytes may be left, and so may the end of the bytes.
void copy_bytes(LaneBytes& bytes) noexcept;

/// Sums the DCs of the next MCUs of the scan's row, which are those of a strip. If any block is
/// `wanted`, also transforms the needed blocks, some of them later together with others.
void store_strip(Scan& scan, std::int16_t* coefficients, int mcus, bool wanted) noexcept;
/// Transforms the blocks that were put off, at the end of a row.
void flush_strips(Scan& scan) noexcept;

}  // namespace penstock::jpeg
