// Feeds over datasets of numbers, and the batches that their towers receive.
#pragma once

#include <optional>
#include <thread>
#include <vector>

#include <penstock/feed.h>
#include <penstock/penstock.h>

#include "staging/host/host_device.h"
#include "tests/staging/batches.h"

namespace penstock::test {

using Numbers = std::vector<std::int64_t>;

inline std::vector<DevicePtr> some_devices(int count, bool unified) {
  std::vector<DevicePtr> devices;
  for (int i = 0; i < count; ++i)
    devices.push_back(HostDevice::make({.index = i, .unified = unified, .check = !unified}));
  return devices;
}

/// The batches that a tower receives: for each epoch, the valid numbers of each batch.
using Taken = std::vector<std::vector<Numbers>>;

inline Taken take_all(Feed& feed, int tower) {
  Taken taken(1);
  const Stream stream(feed.device(tower).shared_from_this(), "tower");
  while (!feed.ended(tower)) {
    std::optional<StagedBatch> batch = feed.next(tower);
    if (!batch) {
      taken.emplace_back();
      continue;
    }
    batch->wait(stream);
    Numbers numbers = read<std::int64_t>(stream, (*batch)[0]);
    numbers.resize(static_cast<std::size_t>(batch->valid_rows()));
    taken.back().push_back(std::move(numbers));
    batch->release(stream);
  }
  taken.pop_back();
  return taken;
}

inline std::vector<Taken> take_all(Feed& feed) {
  std::vector<Taken> taken(static_cast<std::size_t>(feed.towers()));
  std::vector<std::thread> threads;
  for (int t = 0; t < feed.towers(); ++t) {
    threads.emplace_back([&, t] { taken[static_cast<std::size_t>(t)] = take_all(feed, t); });
  }
  for (std::thread& thread : threads) thread.join();
  return taken;
}

inline Dataset numbers_dataset(std::int64_t n, std::int64_t batch) {
  return range(n).map([](const Element& in) { return in; }).batch(batch);
}

}  // namespace penstock::test
