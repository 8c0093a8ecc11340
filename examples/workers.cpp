// A trainer whose batches are also made by other processes: itself, started as a worker.
//
//     workers              makes all batches here
//     workers HOST:PORT,…  has workers make them
//     workers --serve      is a worker: prints its address, and ends with its standard input
//
// Prints the sum of what it was given, which is the same however many workers there are, and
// whatever becomes of them. The map is a callable of this program's: only the same program can make
// what it makes, so workers of another build are refused.
//
// Prints:
//     200 batches, sum 10238435
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>

#include <penstock/penstock.h>
#include <penstock/serve.h>

namespace ps = penstock;

namespace {

ps::Dataset dataset() {
  return ps::range(3200)
      .shuffle({.seed = 1})
      .map(
          [](ps::Element e, ps::Rng& rng) {
            const auto value = e["value"].item<std::int64_t>();
            e.set("value", ps::Tensor::scalar(2 * value + (rng.uniform() < 0.5 ? 0 : 1)));
            return e;
          },
          {.name = "double, or one more"})
      .batch(16);
}

int serve() {
  const auto worker = ps::serve(dataset());
  std::printf("%s\n", worker->address().c_str());
  std::fflush(stdout);
  while (std::getchar() != EOF) continue;
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string said = argc > 1 ? argv[1] : "";
  if (said == "--serve") return serve();
  ps::RunOptions options{.seed = 7};
  for (std::size_t at = 0; at < said.size();) {
    const std::size_t end = std::min(said.find(',', at), said.size());
    options.workers.addresses.push_back(said.substr(at, end - at));
    options.workers.local_threads = 0;
    at = end + 1;
  }
  std::int64_t batches = 0;
  std::int64_t sum = 0;
  ps::Iterator run = dataset().iterate(options);
  for (ps::Element& batch : run) {
    ++batches;
    for (const std::int64_t value : batch[0].values<std::int64_t>()) sum += value;
  }
  std::printf("%lld batches, sum %lld\n", static_cast<long long>(batches),
              static_cast<long long>(sum));
} catch (const ps::Error& error) {
  std::fprintf(stderr, "workers: %s\n", error.what());
  return 1;
}
