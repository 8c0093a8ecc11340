// A time limit that turns a hang into a failure.
#pragma once

#include <unistd.h>

namespace penstock::test {

/// Ends the process unless this object is destroyed within the time. One at a time.
class TimeLimit {
 public:
  explicit TimeLimit(unsigned seconds) { ::alarm(seconds); }
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;
  ~TimeLimit() { ::alarm(0); }
};

}  // namespace penstock::test
