#include "tools/penstock/support/messages.h"

#include <cstdio>
#include <new>

#include "pipelines/text.h"
#include "tools/penstock/support/exit_code.h"

namespace penstock::tool {

std::string message_line(LogLevel level, std::string_view message) {
  return std::string("penstock: ") + (level == LogLevel::warning ? "warning: " : "") +
         printable(message);
}

void log_to_stderr() {
  set_log_sink([](LogLevel level, std::string_view message) {
    if (level == LogLevel::warning)
      std::fprintf(stderr, "%s\n", message_line(level, message).c_str());
  });
}

void print_error(std::string_view text) noexcept {
  std::fflush(stdout);
  try {
    std::fprintf(stderr, "penstock: %s\n", printable(text).c_str());
  } catch (const std::bad_alloc&) {
    std::fputs("penstock: ", stderr);
    for (const char byte : text) std::fputc(byte >= 0x20 && byte < 0x7f ? byte : '?', stderr);
    std::fputc('\n', stderr);
  }
}

int judged(const ErrorStats& errors) noexcept {
  if (!errors.mostly_bad) return kOk;
  print_error(errors.mostly_bad->what());
  return kFailed;
}

}  // namespace penstock::tool
