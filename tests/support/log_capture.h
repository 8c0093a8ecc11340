// The library's log during a test.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include <penstock/log.h>

namespace penstock::test {

/// Receives the log until the end of the scope.
class LogCapture {
 public:
  LogCapture() {
    set_log_sink([this](LogLevel, std::string_view line) {
      const std::lock_guard<std::mutex> lock(mutex_);
      lines_.emplace_back(line);
    });
  }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
  ~LogCapture() { set_log_sink({}); }

  std::vector<std::string> lines() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return lines_;
  }
  /// Counts the lines that contain `text`.
  std::size_t count(std::string_view text) const {
    std::size_t n = 0;
    for (const std::string& line : lines()) n += line.find(text) != std::string::npos;
    return n;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

}  // namespace penstock::test
