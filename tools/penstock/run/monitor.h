// Watches a run: draws the live view, passes messages on, and speaks up when nothing moves.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <penstock/stats.h>

#include "tools/penstock/report/meter.h"
#include "tools/penstock/report/screen.h"
#include "tools/penstock/support/terminal.h"

namespace penstock::tool {

struct MonitorOptions {
  bool quiet = false;        ///< draw nothing
  double watchdog_s = 0;     ///< positive: give up after this long without a delivery
  double plain_every_s = 5;  ///< between lines where stderr is not a terminal
};

/// What the monitor looks at. Called from its thread.
struct Watched {
  std::function<Stats()> stats;
  std::function<Moment()> moment;
  std::function<void()> give_up;  ///< called once, when the watchdog's time is over
  std::function<std::vector<TowerStats>()> towers = [] { return std::vector<TowerStats>(); };
};

/// A thread that looks at a run ten times a second until destroyed. On a terminal it redraws a
/// picture on stderr, elsewhere it writes a line now and then. While it lives it is the library's
/// log sink, and lets warnings through. It never ends a run that it can't watch: where there is no
/// thread or no memory for a look it says so once, and goes on with the next.
class Monitor {
 public:
  Monitor(Scene scene, Watched watched, MonitorOptions options);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  /// True once the watchdog gave up.
  bool gave_up() const noexcept { return gave_up_.load(std::memory_order_acquire); }
  /// Ends the watch; what was seen until then. Idempotent.
  std::vector<Timeline::Point> finish();

 private:
  void watch() noexcept;
  void look(double now_s);
  void check_progress(double now_s, const Moment& moment) noexcept;
  void give_up(double still_s) noexcept;
  void stop() noexcept;
  void fall_silent(const char* why) noexcept;
  void print_messages();

  const Scene scene_;
  const Watched watched_;
  const MonitorOptions options_;
  const TerminalTraits traits_;
  std::atomic<bool> gave_up_{false};

  // Of the thread.
  Canvas canvas_;
  Meter meter_;
  Timeline timeline_;
  double last_line_s_ = 0;
  double last_change_s_ = 0;
  std::uint64_t last_delivered_ = 0;
  double warned_s_ = 0;
  bool silent_ = false;  // said that something was not seen

  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;              // guarded by mutex_
  std::vector<std::string> messages_;  // guarded by mutex_
  std::jthread thread_;
};

}  // namespace penstock::tool
