// Tells whether a run still has its threads.
#pragma once

#include <cstdint>

#include <penstock/error.h>

namespace penstock {

/// Returns the number of forks between the process that first called this and the present one. A
/// child of `fork` has the memory of its parent but none of its threads, so a run of the parent
/// would only hang in the child.
std::uint64_t forks() noexcept;
/// Returns the error of a call in such a child.
Error away_from_home();

}  // namespace penstock
