// A time limit for runs that might never end.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <penstock/iterator.h>

namespace penstock::test {

/// Cancels the run unless it goes in time, so that a test which hangs fails instead.
class CancelAfter {
 public:
  CancelAfter(Iterator& iterator, std::chrono::seconds limit)
      : thread_([&iterator, limit, this](const std::stop_token& stop) {
          std::mutex mutex;
          std::unique_lock lock(mutex);
          if (!gone_.wait_for(lock, stop, limit, [&] { return stop.stop_requested(); }))
            iterator.cancel();
        }) {}

 private:
  std::condition_variable_any gone_;
  std::jthread thread_;
};

}  // namespace penstock::test
