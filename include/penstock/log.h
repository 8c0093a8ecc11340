// The library's log: it goes nowhere until you set a sink.
#pragma once

#include <functional>
#include <string_view>

namespace penstock {

/// The level of a message.
enum class LogLevel { debug, info, warning };

/// A callback for one line without a newline. Any thread may call it, and several may at once. The
/// library may hold locks of the run, except for the line that ends an epoch, which comes from the
/// caller of `Iterator::next`. So a sink must neither call an iterator nor wait for a thread that
/// does.
using LogSink = std::function<void(LogLevel, std::string_view)>;

/// Replaces the process-wide sink; the default drops everything. Thread-safe.
void set_log_sink(LogSink sink);
/// Passes a message to the sink. Thread-safe.
void log(LogLevel level, std::string_view message) noexcept;
/// Logs `message` only the first time `once` is seen in this process. For degradations ("io_uring
/// refused"). Returns whether it is logged, now or before; without a sink, it is not.
bool log_once(LogLevel level, std::string_view once, std::string_view message) noexcept;

}  // namespace penstock
