// Waiting for a value that another rank stores under a key.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include <penstock/error.h>

namespace penstock::cluster {

/// Calls `read()`, which returns std::optional<std::string>, until it returns a value, and returns
/// that. The pause between two calls doubles from 1 ms up to `longest`.
/// Throws no_progress when `timeout` is over, and what `read` throws.
template <class Read>
std::string poll_value(const std::string& key, std::chrono::milliseconds timeout,
                       std::chrono::milliseconds longest, Read read) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point until = Clock::now() + timeout;
  for (std::chrono::milliseconds pause(1);; pause = std::min(pause * 2, longest)) {
    if (std::optional<std::string> value = read()) return *std::move(value);
    if (Clock::now() >= until)
      throw Error(ErrorCode::no_progress,
                  "no rank has told " + key + " in " + std::to_string(timeout.count()) + " ms");
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace penstock::cluster
