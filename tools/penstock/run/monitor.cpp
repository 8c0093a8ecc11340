#include "tools/penstock/run/monitor.h"

#include <chrono>
#include <cstdio>
#include <new>
#include <utility>

#include <unistd.h>

#include <penstock/error.h>
#include <penstock/internal/start_thread.h>
#include <penstock/log.h>

#include "pipelines/numbers.h"
#include "pipelines/text.h"
#include "tools/penstock/report/report.h"
#include "tools/penstock/support/exit_code.h"
#include "tools/penstock/support/messages.h"

namespace penstock::tool {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kEvery{100};
constexpr double kWarnAfter_s = 30;
constexpr double kGrace_s = 5;
constexpr double kLate_s = 1;

/// Messages are lost rather than passed to a monitor that no longer exists.
void restore_sink() noexcept {
  set_log_sink(nullptr);  // allocates nothing
  try {
    log_to_stderr();
  } catch (const std::bad_alloc&) {
    return;
  }
}

}  // namespace

Monitor::Monitor(Scene scene, Watched watched, MonitorOptions options)
    : scene_(std::move(scene)),
      watched_(std::move(watched)),
      options_(options),
      traits_(traits_of(stderr)),
      canvas_(stderr) {
  try {
    set_log_sink([this](LogLevel level, std::string_view message) {
      if (level != LogLevel::warning) return;
      const MutexLock lock(mutex_);
      messages_.push_back(message_line(level, message));
    });
    thread_ = start_thread("watching the run", [this] { watch(); });
  } catch (...) {
    restore_sink();
    fall_silent(status_from_current_exception().error().what());
  }
}

Monitor::~Monitor() {
  stop();
}

std::vector<Timeline::Point> Monitor::finish() {
  stop();
  try {
    return timeline_.points();
  } catch (const std::bad_alloc&) {
    fall_silent(Status::out_of_memory().error().what());
    return {};
  }
}

void Monitor::stop() noexcept {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  thread_.join();
  restore_sink();
  canvas_.clear();
  print_messages();
}

void Monitor::fall_silent(const char* why) noexcept {
  if (!std::exchange(silent_, true))
    std::fprintf(stderr, "penstock: warning: the run is only partly monitored: %s\n", why);
}

void Monitor::watch() noexcept {
  const auto start = Clock::now();
  const auto elapsed = [&start] {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  const auto guarded = [this](const auto& body) {
    try {
      body();
    } catch (...) {
      fall_silent(status_from_current_exception().error().what());
    }
  };
  guarded([&] { timeline_.add(0, watched_.stats(), watched_.towers()); });
  for (auto next = start + kEvery; !stops_before(next);
       next = std::max(next + kEvery, Clock::now()))
    guarded([&] { look(elapsed()); });
  guarded([&] { timeline_.add(elapsed(), watched_.stats(), watched_.towers()); });
}

bool Monitor::stops_before(Clock::time_point next) {
  const MutexLock lock(mutex_);
  while (!stopping_ && Clock::now() < next) stop_.wait_until(mutex_, next);
  return stopping_;
}

void Monitor::look(double now_s) {
  const Moment moment = watched_.moment();
  check_progress(now_s, moment);
  print_messages();
  const Stats stats = watched_.stats();
  std::vector<TowerStats> towers = watched_.towers();
  timeline_.add(now_s, stats, towers);
  meter_.add(now_s, stats, std::move(towers));
  if (options_.quiet) return;
  if (traits_.interactive) {
    const TerminalTraits now = traits_of(stderr);
    canvas_.draw(render(scene_, meter_, stats, moment, now.width, now.height));
  } else if (now_s - last_line_s_ >= options_.plain_every_s) {
    last_line_s_ = now_s;
    std::fprintf(stderr, "%s\n", status_line(scene_, meter_, stats, moment).c_str());
  }
}

// Runs first and allocates no memory, so that the watchdog works when the rest fails.
void Monitor::check_progress(double now_s, const Moment& moment) noexcept {
  // A run looks at its time between batches. One that waits for a server has none.
  if (options_.limit_s > 0 && now_s >= options_.limit_s + kLate_s && !timed_out_.exchange(true))
    watched_.give_up();
  if (moment.delivered != last_delivered_) {
    last_delivered_ = moment.delivered;
    last_change_s_ = now_s;
    warned_s_ = 0;
    return;
  }
  const double still_s = now_s - last_change_s_;
  const double limit_s = options_.watchdog_s;
  if (limit_s > 0 && still_s >= limit_s && !gave_up()) {
    give_up(still_s);
  } else if (limit_s > 0 && still_s >= limit_s + kGrace_s) {
    // Some thread waits for something that can't be cancelled, and there is nothing left to save.
    canvas_.clear();
    std::fprintf(stderr, "penstock: no progress, and the run does not stop\n");
    std::fflush(nullptr);
    _exit(kNoProgress);
  } else if (still_s - warned_s_ >= kWarnAfter_s && limit_s <= 0) {
    warned_s_ = still_s;
    canvas_.clear();
    std::fprintf(stderr, "penstock: warning: nothing was delivered for %.0f s\n", still_s);
  }
}

void Monitor::give_up(double still_s) noexcept {
  gave_up_.store(true, std::memory_order_release);
  canvas_.clear();
  try {
    std::fprintf(stderr, "%s\n", still_picture(watched_.stats(), still_s).c_str());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "penstock: nothing was delivered for %.0f s\n", still_s);
  }
  watched_.give_up();
}

void Monitor::print_messages() {
  std::vector<std::string> messages;
  {
    const MutexLock lock(mutex_);
    messages.swap(messages_);
  }
  if (messages.empty()) return;
  canvas_.clear();
  for (const std::string& message : messages) std::fprintf(stderr, "%s\n", message.c_str());
}

}  // namespace penstock::tool
