// Messages of the program on stderr.
#pragma once

#include <string>
#include <string_view>

#include <penstock/log.h>
#include <penstock/stats.h>

namespace penstock::tool {

/// Returns "penstock: warning: <message>"; for other levels, without the word.
std::string message_line(LogLevel level, std::string_view message);
/// Makes stderr the library's log sink, for warnings.
void log_to_stderr();
/// Prints "penstock: " and the text.
void print_error(std::string_view text) noexcept;
/// Returns the exit code of a run that came to no other end: kFailed, and prints why, if it skipped
/// too many bad elements; otherwise kOk.
int judged(const ErrorStats& errors) noexcept;

}  // namespace penstock::tool
