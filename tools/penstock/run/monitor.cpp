#include "tools/penstock/run/monitor.h"

#include <chrono>
#include <cstdio>

#include <unistd.h>

#include <penstock/log.h>

#include "tools/penstock/report/report.h"
#include "tools/penstock/support/exit_code.h"
#include "tools/penstock/support/messages.h"
#include "tools/penstock/support/numbers.h"
#include "tools/penstock/support/text.h"

namespace penstock::tool {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kEvery{100};
constexpr double kWarnAfter_s = 30;
constexpr double kGrace_s = 5;

}  // namespace

Monitor::Monitor(Scene scene, Watched watched, MonitorOptions options)
    : scene_(std::move(scene)),
      watched_(std::move(watched)),
      options_(options),
      traits_(traits_of(stderr)),
      canvas_(stderr) {
  set_log_sink([this](LogLevel level, std::string_view message) {
    if (level != LogLevel::warning) return;
    const std::lock_guard lock(mutex_);
    messages_.push_back(message_line(level, message));
  });
  thread_ = std::thread([this] { watch(); });
}

Monitor::~Monitor() {
  finish();
}

std::vector<Timeline::Point> Monitor::finish() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
    log_to_stderr();
    canvas_.clear();
    print_messages();
  }
  return timeline_.points();
}

void Monitor::watch() {
  const auto start = Clock::now();
  timeline_.add(0, watched_.stats());
  std::unique_lock lock(mutex_);
  for (auto next = start + kEvery; !stop_.wait_until(lock, next, [this] { return stopping_; });
       next = std::max(next + kEvery, Clock::now())) {
    lock.unlock();
    look(std::chrono::duration<double>(Clock::now() - start).count());
    lock.lock();
  }
  lock.unlock();
  timeline_.add(std::chrono::duration<double>(Clock::now() - start).count(), watched_.stats());
}

void Monitor::look(double now_s) {
  const Stats stats = watched_.stats();
  const Moment moment = watched_.moment();
  meter_.add(now_s, stats);
  timeline_.add(now_s, stats);
  check_progress(now_s, stats, moment);
  print_messages();
  if (options_.quiet) return;
  if (traits_.interactive) {
    const TerminalTraits now = traits_of(stderr);
    canvas_.draw(render(scene_, meter_, stats, moment, now.width, now.height));
  } else if (now_s - last_line_s_ >= options_.plain_every_s) {
    last_line_s_ = now_s;
    std::fprintf(stderr, "%s\n", status_line(scene_, meter_, stats, moment).c_str());
  }
}

void Monitor::check_progress(double now_s, const Stats& stats, const Moment& moment) {
  if (moment.delivered != last_delivered_) {
    last_delivered_ = moment.delivered;
    last_change_s_ = now_s;
    warned_s_ = 0;
    return;
  }
  const double still_s = now_s - last_change_s_;
  const double limit_s = options_.watchdog_s;
  if (limit_s > 0 && still_s >= limit_s && !gave_up()) {
    gave_up_.store(true, std::memory_order_release);
    canvas_.clear();
    std::fprintf(stderr, "%s\n", still_picture(stats, still_s).c_str());
    watched_.give_up();
  } else if (limit_s > 0 && still_s >= limit_s + kGrace_s) {
    // Some thread waits for something that can't be cancelled; nothing is left to be saved.
    canvas_.clear();
    std::fprintf(stderr, "penstock: no progress, and the run can't be stopped\n");
    std::fflush(nullptr);
    _exit(kNoProgress);
  } else if (still_s - warned_s_ >= kWarnAfter_s && limit_s <= 0) {
    warned_s_ = still_s;
    const std::lock_guard lock(mutex_);
    messages_.push_back(
        message_line(LogLevel::warning, "nothing was delivered for " + human_seconds(still_s)));
  }
}

void Monitor::print_messages() {
  std::vector<std::string> messages;
  {
    const std::lock_guard lock(mutex_);
    messages.swap(messages_);
  }
  if (messages.empty()) return;
  canvas_.clear();
  for (const std::string& message : messages) std::fprintf(stderr, "%s\n", message.c_str());
}

}  // namespace penstock::tool
