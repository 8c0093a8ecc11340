// Messages of the program on stderr.
#pragma once

#include <string>
#include <string_view>

#include <penstock/log.h>

namespace penstock::tool {

/// Returns "penstock: warning: <message>"; for other levels, without the word.
std::string message_line(LogLevel level, std::string_view message);
/// Makes stderr the library's log sink, for warnings.
void log_to_stderr();
/// Prints "penstock: " and the text.
void print_error(std::string_view text) noexcept;

}  // namespace penstock::tool
