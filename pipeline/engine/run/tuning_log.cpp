#include "pipeline/engine/run/tuning_log.h"

#include <array>
#include <cstdio>
#include <utility>

#include <penstock/log.h>

#include "pipeline/core/log_sink.h"

namespace penstock {

void TuningLog::add(const char* knob, std::size_t from, std::size_t to, std::string reason) {
  constexpr std::size_t kMost = 1000;
  const std::chrono::duration<double> at = std::chrono::steady_clock::now() - start_;
  std::string line;
  if (log_sink_given())
    line = std::string(knob) + ": " + std::to_string(from) + " to " + std::to_string(to) +
           ", because " + reason;
  MutexLock lock(mutex_);
  if (decisions_.size() < kMost)
    decisions_.push_back({at.count(), knob, from, to, std::move(reason)});
  if (line.empty()) return;
  lines_.push_back(std::move(line));
  some_.store(true, std::memory_order_release);
}

void TuningLog::write_down() noexcept {
  if (!some_.load(std::memory_order_acquire)) return;
  std::vector<std::string> lines;
  {
    MutexLock lock(mutex_);
    some_.store(false, std::memory_order_relaxed);
    lines.swap(lines_);
  }
  for (const std::string& line : lines) log(LogLevel::debug, line);
}

std::vector<Decision> TuningLog::decisions() const {
  MutexLock lock(mutex_);
  return decisions_;
}

std::string in_ms(std::chrono::nanoseconds time) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f ms", 1e-6 * static_cast<double>(time.count()));
  return text.data();
}

}  // namespace penstock
