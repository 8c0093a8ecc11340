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
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return open_; }))
      return;
    print_error("the data were not open after " + human_seconds(seconds) + " (--seconds)");
    std::fflush(nullptr);
    _exit(kNoProgress);  // what opens them may wait for a server
  });
}

OpeningLimit::~OpeningLimit() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    open_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

}  // namespace penstock::tool
