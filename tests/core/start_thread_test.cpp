// Threads: their stack, their end, and what is said if none can be started.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <stop_token>
#include <thread>
#include <utility>

#include <pthread.h>

#include <penstock/error.h>
#include <penstock/internal/start_thread.h>

#include "tests/support/errors.h"

namespace penstock {
namespace start_thread_test {

std::size_t stack_of_this_thread() {
  pthread_attr_t attributes;
  if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return 0;
  std::size_t bytes = 0;
  ::pthread_attr_getstacksize(&attributes, &bytes);
  ::pthread_attr_destroy(&attributes);
  return bytes;
}

/// Sets the stack that threads get by default, and restores it.
class DefaultStack {
 public:
  explicit DefaultStack(std::size_t bytes) {
    ::pthread_getattr_default_np(&before_);
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setstacksize(&attributes, bytes);
    ::pthread_setattr_default_np(&attributes);
    ::pthread_attr_destroy(&attributes);
  }
  ~DefaultStack() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }
  DefaultStack(const DefaultStack&) = delete;
  DefaultStack& operator=(const DefaultStack&) = delete;

 private:
  pthread_attr_t before_{};
};

TEST(StartThread, HasEightMebibytesOfStackOrWhatTheProcessWants) {
  for (const std::size_t usual :
       {std::size_t{64} << 10, std::size_t{8} << 20, std::size_t{32} << 20}) {
    const DefaultStack set(usual);
    std::size_t bytes = 0;
    start_thread("a test", [&] { bytes = stack_of_this_thread(); }).join();
    EXPECT_GE(bytes, std::max(usual, std::size_t{8} << 20));
  }
}

TEST(StartThread, IsToldToStopAndWaitedForWhenItIsDestroyedOrReplaced) {
  std::atomic<int> ended = 0;
  const auto until_stop = [&](const std::stop_token& stop) {
    while (!stop.stop_requested()) std::this_thread::yield();
    ++ended;
  };
  {
    Thread thread = start_thread("a test", until_stop);
    thread = start_thread("a test", until_stop);
    EXPECT_EQ(ended, 1);
    Thread other(std::move(thread));
    EXPECT_FALSE(thread.joinable());  // NOLINT(bugprone-use-after-move)
    EXPECT_TRUE(other.joinable());
  }
  EXPECT_EQ(ended, 2);
}

TEST(StartThread, NoRoomForAThread) {
  const DefaultStack more_than_there_is(std::size_t{1} << 47);
  const auto held = std::make_shared<int>(0);
  test::expect_error(ErrorCode::resource_exhausted, "no thread for a test can be started",
                     [&] { start_thread("a test", [held] {}); });
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace start_thread_test
}  // namespace penstock
