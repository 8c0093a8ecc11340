// Watches a run: draws the live view, passes messages on, and reports a run that makes no progress.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/stats.h>

#include "tools/penstock/report/meter.h"
#include "tools/penstock/report/screen.h"
#include "tools/penstock/support/terminal.h"

namespace penstock::tool {

struct MonitorOptions {
  bool quiet = false;        ///< draw nothing
  double watchdog_s = 0;     ///< positive: give up after this long without a delivery
  double limit_s = 0;        ///< positive: end a run that has not ended a second after this
  double plain_every_s = 5;  ///< between lines, if stderr is not a terminal
};

/// The functions through which the monitor observes a run. Its thread calls them.
struct Watched {
  std::function<Stats()> stats;
  std::function<Moment()> moment;
  /// Called when the watchdog's time has passed, or that of the run.
  std::function<void()> give_up;
  std::function<std::vector<TowerStats>()> towers = [] { return std::vector<TowerStats>(); };
};

/// A thread that observes a run ten times a second until it is destroyed. On a terminal it redraws
/// a picture on stderr; elsewhere it writes a line now and then. During its lifetime it is the
/// library's log sink, and prints warnings. It never ends a run that it can't observe. If no thread
/// can be started, or no memory is left for a look, it says so once and continues with the next
/// look.
class Monitor {
 public:
  Monitor(Scene scene, Watched watched, MonitorOptions options);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  /// True after the watchdog gave up.
  bool gave_up() const noexcept { return gave_up_.load(std::memory_order_acquire); }
  /// True after it ended a run that was to end by itself.
  bool timed_out() const noexcept { return timed_out_.load(std::memory_order_acquire); }
  /// Ends the watch, and returns the history so far. Idempotent.
  std::vector<Timeline::Point> finish();

 private:
  void watch() noexcept EXCLUDES(mutex_);
  /// Waits until then. Returns true if the watch ends.
  bool stops_before(std::chrono::steady_clock::time_point next) EXCLUDES(mutex_);
  void look(double now_s);
  void check_progress(double now_s, const Moment& moment) noexcept;
  void give_up(double still_s) noexcept;
  void stop() noexcept EXCLUDES(mutex_);
  void fall_silent(const char* why) noexcept;
  void print_messages() EXCLUDES(mutex_);

  const Scene scene_;
  const Watched watched_;
  const MonitorOptions options_;
  const TerminalTraits traits_;
  std::atomic<bool> gave_up_{false};
  std::atomic<bool> timed_out_{false};

  // Used by the thread only.
  Canvas canvas_;
  Meter meter_;
  Timeline timeline_;
  double last_line_s_ = 0;
  double last_change_s_ = 0;
  std::uint64_t last_delivered_ = 0;
  double warned_s_ = 0;
  bool silent_ = false;  // it has said that it could not observe the run

  Mutex mutex_;
  CondVar stop_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::vector<std::string> messages_ GUARDED_BY(mutex_);
  Thread thread_;
};

}  // namespace penstock::tool
