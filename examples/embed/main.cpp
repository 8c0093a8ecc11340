// Penstock as the input layer of another program: batches for two threads that train, and
// statistics. CMakeLists.txt beside this file says how to build and run it.
//
// Prints:
//     2 trainers took 1000 elements in 32 batches
//     stages: range[0] 1000, map[2] square 1000, batch[3] 32
//     memory: never above 16 MiB
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <penstock/penstock.h>

namespace ps = penstock;

int main() try {
  const ps::Dataset dataset = ps::range(1000)
                                  .shuffle()
                                  .map(
                                      [](ps::Element element) {
                                        const auto value = element["value"].item<std::int64_t>();
                                        element["value"] = ps::Tensor::scalar(value * value);
                                        return element;
                                      },
                                      {.name = "square"})
                                  .batch(32);

  // Each batch goes to one of the threads that ask. It lives in memory that is used again once the
  // last tensor that views it is gone.
  ps::Iterator iterator = dataset.iterate({.seed = 1, .memory_bytes = 16 << 20});
  std::atomic<std::int64_t> elements{0};
  std::atomic<std::int64_t> sum{0};
  const auto train = [&] {
    for (ps::Next next = iterator.next(); next.has_value(); next = iterator.next()) {
      for (const std::int64_t value : (*next)["value"].values<std::int64_t>()) sum += value;
      elements += next->valid_rows;
    }
  };
  {
    const std::jthread first(train);
    const std::jthread second(train);
  }

  const ps::Stats stats = iterator.stats();
  std::printf("2 trainers took %lld elements in %llu batches\n", static_cast<long long>(elements),
              static_cast<unsigned long long>(stats.batches));
  std::string stages;
  for (const ps::StageStats& stage : stats.stages) {
    if (stage.items == 0) continue;
    stages += (stages.empty() ? "" : ", ") + stage.name + " " + std::to_string(stage.items);
  }
  std::printf("stages: %s\n", stages.c_str());
  std::printf("memory: %s 16 MiB\n",
              stats.memory.peak_bytes <= stats.memory.budget_bytes ? "never above" : "above");
  return elements == 1000 && sum == 332'833'500 ? 0 : 1;
} catch (const ps::Error& error) {
  std::fprintf(stderr, "embed: %s\n", error.what());
  return 1;
}
