#include "tools/penstock/shards/pass.h"

#include <atomic>
#include <chrono>

#include "tools/penstock/run/monitor.h"

namespace penstock::tool {

PassResult skip(const Dataset& dataset, const PassOptions& options, Interrupts& interrupts,
                const std::function<void(const Element&)>& visit) {
  RunOptions run;
  run.threads = options.threads;
  run.memory_bytes = options.memory_bytes;
  Iterator iterator = dataset.iterate(run);
  std::atomic<std::uint64_t> seen{0};
  const auto start = std::chrono::steady_clock::now();
  const auto moment = [&] {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    return Moment{0, seen.load(std::memory_order_relaxed), elapsed.count()};
  };
  Scene scene;
  scene.title = options.title;
  scene.expected = static_cast<double>(dataset.cardinality());
  scene.colour = traits_of(stderr).colour;
  MonitorOptions watching;
  watching.quiet = options.quiet;
  PassResult result;
  const Cancellation cancellation(interrupts, [&] { iterator.cancel(); });
  const Monitor monitor(scene, {[&] { return iterator.stats(); }, moment, [] {}}, watching);
  // Each element is released before the next one, which may need its memory.
  while (Next next = iterator.next()) {
    seen.fetch_add(1, std::memory_order_relaxed);
    if (next.has_value()) {
      ++result.good;
      visit(*next);
    } else if (next.error().code() == ErrorCode::cancelled) {
      result.interrupted = true;
      break;
    } else if (next.error().code() == ErrorCode::resource_exhausted) {
      throw Error(next.error());
    } else {
      ++result.bad;
      if (result.errors.size() < options.keep) result.errors.push_back(next.error());
    }
  }
  return result;
}

}  // namespace penstock::tool
