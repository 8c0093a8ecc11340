// Cancels a run while its consumer waits for work that is stuck.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include <penstock/iterator.h>

namespace penstock::test {

/// Cancels a run after a moment. It sets `open`, for which the stuck work waits, only after `woken`
/// was called, which says that the consumer no longer waits. So nothing but the cancellation can
/// wake the consumer.
class Canceller {
 public:
  Canceller(Iterator& iterator, std::atomic<bool>& open)
      : thread_([this, &iterator, &open] {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          iterator.cancel();
          const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
          while (!woken_ && std::chrono::steady_clock::now() < patience)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          EXPECT_TRUE(woken_) << "whoever waited still waits";
          open = true;
        }) {}
  /// Says that the consumer no longer waits. Joins the thread.
  void woken() {
    woken_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> woken_{false};
  std::jthread thread_;
};

}  // namespace penstock::test
