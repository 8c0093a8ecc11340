// Staging areas on devices of each kind.
#pragma once

#include <penstock/penstock.h>
#include <penstock/staging_area.h>

#include "tests/staging/batches.h"
#include "tests/staging/beds.h"

namespace penstock::test {

class StagingAreaOn : public OnEachDevice {
 protected:
  Actor start(std::function<void()> body) {
    return device().backend().time().start({device().id().index, 1 << 10}, std::move(body));
  }
  void pause(std::int64_t nanoseconds) {
    device().backend().time().sleep_until(device().now() + nanoseconds);
  }
  /// Waits until `condition` holds; false if it does not within 20 s.
  bool wait_until(const std::function<bool()>& condition) {
    constexpr std::int64_t kPause = 1'000'000;
    for (int pauses = 0; pauses < 20'000; ++pauses) {
      if (condition()) return true;
      pause(kPause);
    }
    return condition();
  }
};

}  // namespace penstock::test
