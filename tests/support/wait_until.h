// Waiting for an event in another thread or process.
#pragma once

#include <chrono>
#include <thread>

namespace penstock::test {

/// Polls `condition` until it holds; false if it does not hold within `limit`. The limit only
/// detects a hang: no test passes or fails by how fast the machine is.
template <typename Condition>
bool wait_until(const Condition& condition, std::chrono::seconds limit = std::chrono::seconds(60)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace penstock::test
