// Whether a run still has its threads.
#pragma once

#include <cstdint>

namespace penstock {

/// Forks between the process that first called this and this one. A child of `fork` has the memory
/// of its parent and none of its threads, so that a run of the parent's can only hang there.
std::uint64_t forks() noexcept;

}  // namespace penstock
