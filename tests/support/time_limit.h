// A hang is a failure.
#pragma once

#include <unistd.h>

namespace penstock::test {

/// Ends the process if it still stands after so many seconds. One at a time.
class TimeLimit {
 public:
  explicit TimeLimit(unsigned seconds) { ::alarm(seconds); }
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;
  ~TimeLimit() { ::alarm(0); }
};

}  // namespace penstock::test
