// Penstock as the input layer of another program: batches for two threads that train, and
// statistics. CMakeLists.txt beside this file says how to build and run it.
//
//     embed [FOLDER]
//
// Takes the numbers below 1000, or the images of a folder. A bad one ends it with an error that
// names it: what `*` throws on a trainer's thread is thrown again by `get`.
//
// Prints:
//     2 trainers took 1000 elements in 32 batches
//     stages: range[0] 1000, map[2] square 1000, batch[3] 32
//     memory: never above 64 MiB
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <future>
#include <string>
#include <vector>

#include <penstock/penstock.h>

namespace ps = penstock;

static ps::Dataset numbers() {
  return ps::range(1000).shuffle().map(
      [](ps::Element element) {
        const auto value = element["value"].item<std::int64_t>();
        element["value"] = ps::Tensor::scalar(value * value);
        return element;
      },
      {.name = "square"});
}

static ps::Dataset photographs(const char* folder) {
  return ps::images(folder).shuffle().map(ps::decode_image().random_resized_crop(32));
}

int main(int argc, char** argv) try {
  const ps::Dataset elements = argc > 1 ? photographs(argv[1]) : numbers();
  const ps::Dataset dataset = elements.batch(32);

  // Each batch goes to one of the threads that ask. It lives in memory that is used again once the
  // last tensor that views it is gone.
  ps::Iterator iterator = dataset.iterate({.seed = 1, .memory_bytes = 64 << 20});
  std::atomic<std::int64_t> taken{0};
  std::atomic<std::int64_t> sum{0};
  const auto train = [&] {
    while (ps::Next next = iterator.next()) {
      const ps::Element& batch = *next;  // throws the error that stands here instead of a batch
      for (const std::int64_t value : batch[argc > 1 ? "label" : "value"].values<std::int64_t>())
        sum += value;
      taken += batch.valid_rows;
    }
  };
  std::future<void> first = std::async(std::launch::async, train);
  std::future<void> second = std::async(std::launch::async, train);
  first.get();
  second.get();

  const ps::Stats stats = iterator.stats();
  std::printf("2 trainers took %lld elements in %llu batches\n", static_cast<long long>(taken),
              static_cast<unsigned long long>(stats.batches));
  std::string stages;
  for (const ps::StageStats& stage : stats.stages) {
    if (stage.items == 0) continue;
    stages += (stages.empty() ? "" : ", ") + stage.name + " " + std::to_string(stage.items);
  }
  std::printf("stages: %s\n", stages.c_str());
  std::printf("memory: %s 64 MiB\n",
              stats.memory.peak_bytes <= stats.memory.budget_bytes ? "never above" : "above");
  return taken == elements.cardinality() && (argc > 1 || sum == 332'833'500) ? 0 : 1;
} catch (const ps::Error& error) {
  std::fprintf(stderr, "embed: %s\n", error.what());
  return 1;
}
