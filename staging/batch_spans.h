// Copies and steps as spans of a trace.
#pragma once

#include <string>

#include "staging/area.h"

namespace penstock {

/// Records the copy and the step of a tower's batch, if a trace is being recorded. `tower`: such as
/// "tower 0 host:0".
void note_spans(const std::string& tower, const BatchTimes& times) noexcept;

}  // namespace penstock
