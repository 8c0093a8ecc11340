// A limit for the time in which a run's data are opened.
#pragma once

#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>

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
  bool opens_within(double seconds) EXCLUDES(mutex_);

  Mutex mutex_;
  CondVar changed_;
  bool open_ GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace penstock::tool
