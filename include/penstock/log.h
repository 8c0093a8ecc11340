// Where the library says things: nowhere, unless it is given a sink.
#pragma once

#include <functional>
#include <string_view>

namespace penstock {

enum class LogLevel { debug, info, warning };

/// Called with one line without a newline, from any thread, possibly from several at once.
/// But for the line that ends an epoch, which is said by who called `Iterator::next`, locks of the
/// run may be held: so it must neither call an iterator nor wait for somebody who does.
using LogSink = std::function<void(LogLevel, std::string_view)>;

/// Replaces the process-wide sink; the default drops everything. Thread-safe.
void set_log_sink(LogSink sink);
void log(LogLevel level, std::string_view message) noexcept;
/// Says `message` only the first time `once` is seen in this process. For degradations ("io_uring
/// refused").
void log_once(LogLevel level, std::string_view once, std::string_view message) noexcept;

}  // namespace penstock
