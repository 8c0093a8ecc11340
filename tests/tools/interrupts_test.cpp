#include "tools/penstock/support/interrupts.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/support/wait_until.h"

namespace penstock::tool {
namespace interrupts_test {

using testing::ExitedWithCode;

constexpr int kDone = 7;

void pause_for(std::chrono::milliseconds time) {
  std::this_thread::sleep_for(time);
}

/// Sends a signal and waits until it was heard.
void send(int signal, const std::atomic<int>& heard, int times) {
  kill(getpid(), signal);
  test::wait_until([&] { return heard.load() >= times; });
}

// Time advances only when a test advances it.
std::atomic<int> now_s{100};
std::atomic<int> looks{0};

Interrupts::Clock::time_point virtual_now() {
  ++looks;
  return Interrupts::Clock::time_point(std::chrono::seconds(now_s.load()));
}

/// Returns after the thread of Interrupts has looked for signals at the new time.
void advance(std::chrono::seconds time) {
  now_s += static_cast<int>(time.count());
  const int before = looks.load();
  // The first look reads the new time; the second begins after the first has ended.
  test::wait_until([&] { return looks.load() >= before + 2; });
}

void wait_for_the_end() {
  pause_for(std::chrono::seconds(60));
}

TEST(Interrupts, SameSignalTwice) {
  const auto run = [] {
    Interrupts interrupts(kTerminated, Interrupts::kPatience, virtual_now);
    std::atomic<int> calls{0};
    const Cancellation cancellation(interrupts, [&] { ++calls; });
    send(SIGTERM, calls, 1);
    kill(getpid(), SIGTERM);
    advance(std::chrono::seconds(0));
    _exit(calls == 1 && interrupts.exit_code() == 143 ? kDone : 1);
  };
  EXPECT_EXIT(run(), ExitedWithCode(kDone), "");
}

TEST(Interrupts, LateTwin) {
  const auto run = [] {
    {
      Interrupts interrupts;
      std::atomic<int> calls{0};
      const Cancellation cancellation(interrupts, [&] { ++calls; });
      send(SIGTERM, calls, 1);
    }
    kill(getpid(), SIGTERM);
    pause_for(std::chrono::milliseconds(50));
    _exit(kDone);
  };
  EXPECT_EXIT(run(), ExitedWithCode(kDone), "");
}

TEST(Interrupts, SignalWithNothingToSave) {
  const auto run = [](bool begun) {
    Interrupts interrupts;
    if (begun) const Cancellation cancellation(interrupts, [] {});
    kill(getpid(), SIGINT);
    test::wait_until([&] { return interrupts.received() != 0; });
    if (!begun) wait_for_the_end();
    _exit(interrupts.received() == SIGINT ? kDone : 1);
  };
  EXPECT_EXIT(run(false), ExitedWithCode(130), "");
  EXPECT_EXIT(run(true), ExitedWithCode(kDone), "") << "what was begun is brought to its end";
}

// Whoever has a position on the disk says that all is well, also if it goes before it has begun.
TEST(Interrupts, ExitCodeOfSigterm) {
  for (const bool begun : {false, true}) {
    const auto run = [begun] {
      Interrupts interrupts(0);
      if (begun) const Cancellation cancellation(interrupts, [] {});
      kill(getpid(), SIGTERM);
      test::wait_until([&] { return interrupts.received() != 0; });
      if (!begun) wait_for_the_end();
      _exit(begun ? interrupts.exit_code() : kDone);
    };
    EXPECT_EXIT(run(), ExitedWithCode(0), "");
  }
}

TEST(Interrupts, SignalMuchLater) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const auto run = [&] {
      Interrupts interrupts(kTerminated, Interrupts::kPatience, virtual_now);
      std::atomic<int> calls{0};
      const Cancellation cancellation(interrupts, [&] { ++calls; });
      send(SIGTERM, calls, 1);
      advance(Interrupts::kInsists);
      kill(getpid(), signal);
      wait_for_the_end();
      _exit(kDone);
    };
    EXPECT_EXIT(run(), ExitedWithCode(128 + signal), "");
  }
}

TEST(Interrupts, ProcessThatDoesNotEnd) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const auto run = [&] {
      Interrupts interrupts(0, std::chrono::seconds(1), virtual_now);
      std::atomic<int> calls{0};
      const Cancellation cancellation(interrupts, [&] { ++calls; });
      send(signal, calls, 1);
      advance(std::chrono::seconds(1));
      wait_for_the_end();
      _exit(kDone);
    };
    EXPECT_EXIT(run(), ExitedWithCode(128 + signal), "did not stop in time");
  }
}

}  // namespace interrupts_test
}  // namespace penstock::tool
