// A limit for the time in which a run's data are opened.
#pragma once

#include <condition_variable>
#include <mutex>

#include <penstock/internal/start_thread.h>

namespace penstock::tool {

/// Ends the process with exit code 75 if this object still exists after `seconds`. Until the data
/// are open there is nothing to save, as for Interrupts. 0: no limit.
class OpeningLimit {
 public:
  explicit OpeningLimit(double seconds);
  ~OpeningLimit();
  OpeningLimit(const OpeningLimit&) = delete;
  OpeningLimit& operator=(const OpeningLimit&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;  // guarded by mutex_
  Thread thread_;
};

}  // namespace penstock::tool
