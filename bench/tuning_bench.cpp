// How soon a run that begins with one of everything is as fast as one tuned by hand:
//   penstock_tuning_bench FOLDER [THREADS] [ROUNDS]
// Crops of the folder's images from a device that takes 20 ms for each read. Tuned by hand are
// threads, reading threads and slots; its rate is that behind the first two seconds. In turns.
// Prints a JSON line of medians: seconds until half a second had 95 % of that rate, and the ratio
// of the rates behind two seconds.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include <penstock/penstock.h>

#include "bench/main.h"
#include "bench/measure.h"
#include "bench/slow_files.h"

namespace penstock::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSettled = 2;
constexpr double kSeconds = 5;

struct Trace {
  std::vector<double> at;  // seconds from the first call to each batch
  std::int64_t rows = 0;   // of each

  double rate() const {
    const auto first = std::upper_bound(at.begin(), at.end(), kSettled);
    return static_cast<double>(rows * (at.end() - first)) / (at.back() - *(first - 1));
  }
  /// The end of the first half second with at least such a rate.
  double reaches(double wanted) const {
    constexpr double kWindow = 0.5;
    for (std::size_t end = 0, begin = 0; end < at.size(); ++end) {
      while (at[end] - at[begin] > kWindow) ++begin;
      if (at[end] < kWindow) continue;
      if (static_cast<double>(rows) * static_cast<double>(end - begin + 1) >= wanted * kWindow) {
        return at[end];
      }
    }
    return at.back();
  }
};

Trace run_for(const Dataset& dataset, const RunOptions& options) {
  const auto start = Clock::now();
  Iterator iterator = dataset.iterate(options);
  Trace trace;
  for (double now = 0; now < kSeconds;) {
    trace.rows = iterator.next().value().valid_rows;
    now = std::chrono::duration<double>(Clock::now() - start).count();
    trace.at.push_back(now);
  }
  return trace;
}

}  // namespace

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: penstock_tuning_bench FOLDER [THREADS] [ROUNDS]\n");
    return 2;
  }
  const int threads = argc > 2 ? std::max(1, std::atoi(argv[2])) : 2;
  const int rounds = argc > 3 ? std::max(1, std::atoi(argv[3])) : 3;
  ImagesOptions options;
  options.files = std::make_shared<SlowFiles>(default_file_system(), std::chrono::milliseconds(20));
  const Dataset dataset =
      images(argv[1], options)
          .shuffle()
          .repeat()
          .map_op(decode_image().random_resized_crop(224).random_flip().normalize().op())
          .batch(32);
  const RunOptions tuned{.seed = 7, .threads = threads, .slots = 12, .io_threads = 96 * threads};
  const RunOptions alone{.seed = 7, .threads = threads};
  std::vector<double> ratios;
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    Trace traces[2];
    for (const int side : {round % 2, 1 - round % 2}) {
      traces[side] = run_for(dataset, side == 0 ? tuned : alone);
    }
    ratios.push_back(traces[1].rate() / traces[0].rate());
    times.push_back(traces[1].reaches(0.95 * traces[0].rate()));
  }
  std::printf(
      "{\"bench\":\"tuning\",\"threads\":%d,\"rounds\":%d,\"seconds_to_95\":%.2f,"
      "\"of_hand_tuned\":%.3f}\n",
      threads, rounds, median(times), median(ratios));
  return 0;
}

}  // namespace penstock::bench
