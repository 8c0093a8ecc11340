// The loops of Lanes over vectors.
#pragma once

#include <cstdint>

#include "pipeline/work/jpeg/lanes.h"

namespace penstock::jpeg {

bool lanes_supported() noexcept;

/// Decodes until lanes have no blocks left in their strips: these.
std::uint32_t run_lanes(Lanes& lanes) noexcept;

/// Unstuffs what can be done by vectors: some bytes may be left, and what ends them.
void copy_bytes(LaneBytes& bytes) noexcept;

/// Sums the DCs of a strip's MCUs, which are the next of the scan's row, and, if any is `wanted`,
/// transforms those blocks that are needed; some later, with others.
void store_strip(Scan& scan, std::int16_t* coefficients, int mcus, bool wanted) noexcept;
/// Behind a row: transforms those too.
void flush_strips(Scan& scan) noexcept;

}  // namespace penstock::jpeg
