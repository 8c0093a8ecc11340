#include "bench/verdicts/situations.h"

#include <ctime>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include <penstock/error.h>
#include <penstock/image.h>
#include <penstock/sources.h>

namespace penstock::bench {
namespace {

using std::chrono::microseconds;

/// Uses so much time of a CPU, however long that takes.
void burn(microseconds work) {
  const auto used = [] {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return microseconds(now.tv_sec * 1'000'000 + now.tv_nsec / 1000);
  };
  const microseconds end = used() + work;
  while (used() < end) {
  }
}

/// Numbers, each of which costs so much.
Dataset burning(microseconds each, const std::string& name = "work") {
  return range(INT64_MAX).map(
      [each](Element element) {
        burn(each);
        return element;
      },
      {.name = name});
}

/// Elements of so many bytes, each of which takes so long without a CPU.
Dataset large(const std::string& component, std::int64_t bytes, microseconds each) {
  MapOptions options{.name = "make " + component, .blocking = each.count() > 0};
  options.output = Spec({{component, DType::u8, Shape({bytes})}});
  return range(INT64_MAX).map(
      [each](const Element&, Element& out, Rng&) {
        std::this_thread::sleep_for(each);
        out[0].mutable_data()[0] = std::byte{1};
      },
      std::move(options));
}

Dataset decoded(const Given& given) {
  return images(given.files)
      .keep({"image"})
      .repeat()
      .map_op(decode_image().resize(32, 32).op())
      .batch(32);
}

Situation slow_disk(const Given& given) {
  return {.dataset = decoded(given),
          .run = {.seed = 7, .io_threads = 4},
          .batches = 60,
          .step = microseconds(2000),
          .device = "host:0"};
}

Situation few_io_threads(const Given& given) {
  return {.dataset = decoded(given),
          .run = {.seed = 7, .io_threads = given.done ? 2 : 1},
          .batches = given.done ? 40 : 20};
}

Situation one_thread(const Given& given) {
  return {.dataset = burning(microseconds(2000)).batch(16),
          .run = {.seed = 7, .threads = given.done ? 2 : 1},
          .batches = 60};
}

Situation heavy_map(const Given& given) {
  return {.dataset = burning(microseconds(given.done ? 1000 : 2000)).batch(16),
          .run = {.seed = 7, .threads = 2},
          .batches = 120,
          .step = microseconds(1000),
          .device = "host:0"};
}

Situation slow_consumer(const Given& given) {
  return {.dataset = burning(microseconds(given.done ? 100 : 200)).batch(16),
          .run = {.seed = 7, .threads = 2},
          .batches = 100,
          .step = microseconds(20'000)};
}

Situation slow_step(const Given& given) {
  return {.dataset = burning(microseconds(200)).batch(16),
          .run = {.seed = 7, .threads = 2},
          .batches = 100,
          .step = microseconds(given.done ? 10'000 : 20'000),
          .device = "host:0"};
}

Situation slow_copy(const Given& given) {
  return {
      .dataset = large("x", 64 << 10, microseconds(0)).batch(16),
      .batches = 100,
      .step = microseconds(5000),
      .device = given.done ? "host:0:copies:bytes_per_s=100e6" : "host:0:copies:bytes_per_s=50e6"};
}

// One batch has room, so that making the next waits until the last was used.
Situation little_memory(const Given& given) {
  return {.dataset = large("x", 1 << 20, microseconds(1000)).batch(16),
          .run = {.seed = 7,
                  .threads = 2,
                  .memory_bytes = given.memory_bytes > 0 ? given.memory_bytes : 30 << 20,
                  .io_threads = 2},
          .batches = 100,
          .step = microseconds(10'000)};
}

Situation few_slots(const Given& given) {
  return {.dataset = large("x", 4096, microseconds(0)).batch(16),
          .batches = 100,
          .step = microseconds(10'000),
          .device = "host:0:copies:latency_us=9000",
          .device_slots = given.done ? 2 : 1};
}

Situation starved(const Given&) {
  return {.dataset = burning(microseconds(1000)).batch(16),
          .run = {.seed = 7, .threads = 2},
          .batches = 120};
}

// Each file is slow once.
Situation cold_cache(const Given& given) {
  Situation situation = slow_disk(given);
  situation.device.clear();
  situation.batches = 32;
  return situation;
}

// Each is handed over by itself, or many in a batch.
Situation tiny_elements(const Given& given) {
  const Dataset numbers = range(INT64_MAX).map([](Element element) { return element; });
  return {.dataset = given.done ? numbers.batch(1024) : numbers,
          .run = {.seed = 7, .threads = 2},
          .batches = given.done ? 50'000 : 5'000'000};
}

Situation straggling_shard(const Given& given) {
  return {.dataset = tar({given.files})
                         .keep({"image"})
                         .repeat()
                         .map_op(decode_image().resize(32, 32).op())
                         .batch(32),
          .run = {.seed = 7, .io_threads = 4},
          .batches = 400};
}

// Values of either input wait in the budget for those of the other.
Situation zipped(const Given& given) {
  return {.dataset = zip({large("a", 1 << 20, microseconds(2000)),
                          large("b", 1 << 20, microseconds(4000))})
                         .batch(4),
          .run = {.seed = 7,
                  .threads = 2,
                  .memory_bytes = given.memory_bytes > 0 ? given.memory_bytes : 24 << 20,
                  .io_threads = 8},
          .batches = 60};
}

Situation lock_in_map(const Given& given) {
  const auto lock = std::make_shared<std::mutex>();
  return {.dataset = range(INT64_MAX)
                         .map(
                             [lock, done = given.done](Element element) {
                               std::unique_lock held(*lock, std::defer_lock);
                               if (!done) held.lock();
                               std::this_thread::sleep_for(microseconds(1000));
                               return element;
                             },
                             {.name = "locks"})
                         .batch(16),
          .run = {.seed = 7, .threads = 2},
          .batches = 100};
}

// From the page cache: more threads than CPUs, which have no others beside them.
Situation page_cache(const Given& given) {
  return {.dataset = tfrecord({given.files}).repeat().batch(64),
          .run = {.seed = 7, .threads = 8},
          .batches = 600};
}

const std::map<std::string, std::function<Situation(const Given&)>>& situations() {
  static const std::map<std::string, std::function<Situation(const Given&)>> kAll{
      {"slow-disk", slow_disk},         {"few-io-threads", few_io_threads},
      {"one-thread", one_thread},       {"heavy-map", heavy_map},
      {"slow-consumer", slow_consumer}, {"slow-step", slow_step},
      {"slow-copy", slow_copy},         {"little-memory", little_memory},
      {"few-slots", few_slots},         {"noisy-neighbour", starved},
      {"cpu-quota", starved},           {"cold-cache", cold_cache},
      {"tiny-elements", tiny_elements}, {"straggling-shard", straggling_shard},
      {"zip-budget", zipped},           {"lock-in-map", lock_in_map},
      {"page-cache", page_cache}};
  return kAll;
}

}  // namespace

std::vector<std::string> situation_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : situations()) names.push_back(name);
  return names;
}

Situation make_situation(const std::string& name, const Given& given) {
  const auto found = situations().find(name);
  if (found == situations().end())
    throw Error(ErrorCode::invalid_argument, "no situation is called \"" + name + '"');
  return found->second(given);
}

}  // namespace penstock::bench
