// Towers on simulated time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include <penstock/feed.h>

#include "staging/clock.h"
#include "staging/host/host_device.h"

namespace penstock::test {

struct TowerTimes {
  std::vector<std::int64_t> step_ns;  ///< of each tower; the last value is for all further towers
  std::int64_t second_stream_ns = 0;  ///< the time for which a second stream uses each batch
  std::int64_t between_ns = 0;  ///< the time for which the tower's thread is busy before it asks
  std::int64_t slow_every = 0;  ///< of this many steps, one takes…
  std::int64_t slow_times = 1;  ///< …this many times as long
  const char* component = "x";
};

/// Takes all batches of the feed. Called by the thread that made the clock.
inline void take_all(Feed& feed, const std::vector<DevicePtr>& devices, VirtualClock& clock,
                     const TowerTimes& times) {
  std::vector<Actor> towers;
  for (int t = 0; t < feed.towers(); ++t) {
    towers.push_back(clock.start({t, 1000}, [&, t] {
      const DevicePtr& device = devices[static_cast<std::size_t>(t)];
      const Stream compute(device, "compute");
      std::optional<Stream> second;
      if (times.second_stream_ns > 0) second.emplace(device, "second");
      const auto at = std::min(static_cast<std::size_t>(t), times.step_ns.size() - 1);
      for (std::int64_t number = 1;; ++number) {
        if (times.between_ns > 0) {
          compute.view().synchronize();
          clock.sleep_until(clock.now() + times.between_ns);
        }
        std::optional<StagedBatch> batch = feed.next(t);
        if (!batch) break;
        batch->wait(compute);
        if (second) {
          batch->wait(*second);
          second->view().busy(times.second_stream_ns);
        }
        const bool slow = times.slow_every > 0 && number % times.slow_every == 0;
        const DeviceTensor& tensor = (*batch)[times.component];
        static_cast<HostDevice&>(*device).launch(
            compute, {.run = {},
                      .reads = {{tensor.data, tensor.nbytes()}},
                      .takes_ns = times.step_ns[at] * (slow ? times.slow_times : 1)});
        batch->release(compute);
      }
      compute.view().synchronize();
      if (second) second->view().synchronize();
    }));
  }
}

}  // namespace penstock::test
