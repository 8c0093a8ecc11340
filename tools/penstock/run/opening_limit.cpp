#include "tools/penstock/run/opening_limit.h"

#include <chrono>
#include <cstdio>
#include <string>

#include <unistd.h>

#include "report/format.h"
#include "tools/penstock/support/exit_code.h"
#include "tools/penstock/support/messages.h"

namespace penstock::tool {

OpeningLimit::OpeningLimit(double seconds) {
  constexpr double kMost = 1e8;  // beyond that, the clock's numbers might not suffice
  if (seconds <= 0 || seconds > kMost) return;
  thread_ = start_thread("the limit for opening data", [this, seconds] {
    if (opens_within(seconds)) return;
    print_error("opening the data took longer than " + human_seconds(seconds) + " (--seconds)");
    std::fflush(nullptr);
    _exit(kNoProgress);  // what opens them may wait for a server
  });
}

bool OpeningLimit::opens_within(double seconds) {
  using Steady = std::chrono::steady_clock;
  const auto until =
      Steady::now() + std::chrono::ceil<Steady::duration>(std::chrono::duration<double>(seconds));
  const MutexLock lock(mutex_);
  while (!open_ && Steady::now() < until) changed_.wait_until(mutex_, until);
  return open_;
}

OpeningLimit::~OpeningLimit() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    open_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

}  // namespace penstock::tool
