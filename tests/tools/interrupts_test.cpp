#include "tools/penstock/support/interrupts.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include <unistd.h>

#include <gtest/gtest.h>

namespace penstock::tool {
namespace {

using testing::ExitedWithCode;

constexpr int kDone = 7;

void pause_for(std::chrono::milliseconds time) {
  std::this_thread::sleep_for(time);
}

/// Sends a signal and waits until it was heard.
void send(int signal, const std::atomic<int>& heard, int times) {
  kill(getpid(), signal);
  while (heard.load() < times) pause_for(std::chrono::milliseconds(1));
}

TEST(Interrupts, TheSameSignalTwiceIsOneRequest) {
  const auto run = [] {
    Interrupts interrupts;
    std::atomic<int> calls{0};
    const Cancellation cancellation(interrupts, [&] { ++calls; });
    send(SIGTERM, calls, 1);
    kill(getpid(), SIGTERM);
    pause_for(std::chrono::milliseconds(200));
    _exit(calls == 1 && interrupts.exit_code() == 143 ? kDone : 1);
  };
  EXPECT_EXIT(run(), ExitedWithCode(kDone), "");
}

TEST(Interrupts, ATwinThatComesLateChangesNothing) {
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

TEST(Interrupts, TheFirstEndsAProcessThatHasNothingToSave) {
  const auto run = [](bool begun) {
    Interrupts interrupts;
    if (begun) const Cancellation cancellation(interrupts, [] {});
    kill(getpid(), SIGINT);
    pause_for(std::chrono::milliseconds(begun ? 100 : 10'000));
    _exit(interrupts.received() == SIGINT ? kDone : 1);
  };
  EXPECT_EXIT(run(false), ExitedWithCode(130), "");
  EXPECT_EXIT(run(true), ExitedWithCode(kDone), "") << "what was begun is brought to its end";
}

// Whoever has a position on the disk says that all is well, also if it goes before it has begun.
TEST(Interrupts, SigtermHasTheCodeThatItWasGiven) {
  for (const bool begun : {false, true}) {
    const auto run = [begun] {
      Interrupts interrupts(0);
      if (begun) const Cancellation cancellation(interrupts, [] {});
      kill(getpid(), SIGTERM);
      pause_for(std::chrono::milliseconds(begun ? 100 : 10'000));
      _exit(interrupts.exit_code());
    };
    EXPECT_EXIT(run(), ExitedWithCode(0), "");
  }
}

TEST(Interrupts, OneMuchLaterEndsTheProcess) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const auto run = [&] {
      Interrupts interrupts;
      std::atomic<int> calls{0};
      const Cancellation cancellation(interrupts, [&] { ++calls; });
      send(SIGTERM, calls, 1);
      pause_for(Interrupts::kInsists + std::chrono::milliseconds(10));
      kill(getpid(), signal);
      pause_for(std::chrono::seconds(10));
      _exit(kDone);
    };
    EXPECT_EXIT(run(), ExitedWithCode(128 + signal), "");
  }
}

TEST(Interrupts, WhatDoesNotEndIsEnded) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const auto run = [&] {
      Interrupts interrupts(0, std::chrono::seconds(1));
      std::atomic<int> calls{0};
      const Cancellation cancellation(interrupts, [&] { ++calls; });
      send(signal, calls, 1);
      pause_for(std::chrono::seconds(10));
      _exit(kDone);
    };
    EXPECT_EXIT(run(), ExitedWithCode(128 + signal), "did not end");
  }
}

}  // namespace
}  // namespace penstock::tool
