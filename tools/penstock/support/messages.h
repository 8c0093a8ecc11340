// What the program says on stderr.
#pragma once

#include <string>
#include <string_view>

#include <penstock/log.h>

namespace penstock::tool {

/// "penstock: warning: <message>"; without the word for other levels.
std::string message_line(LogLevel level, std::string_view message);
/// Makes stderr the library's log sink, for warnings.
void log_to_stderr();
/// "penstock: <what> (<where>)".
void print_error(std::string_view text) noexcept;

}  // namespace penstock::tool
