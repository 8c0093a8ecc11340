// Tells whether the log has a sink.
#pragma once

#include <penstock/log.h>

namespace penstock {

/// True if a log sink is set. For messages that must be shown, and can be shown elsewhere
/// otherwise.
bool log_sink_given() noexcept;

}  // namespace penstock
