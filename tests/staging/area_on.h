// Staging areas on each kind of device.
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
};

}  // namespace penstock::test
