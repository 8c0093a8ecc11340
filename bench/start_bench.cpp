// What a start takes; each prints a JSON line of medians:
//   penstock_start_bench index FILE [ROUNDS]    TFRecords indexed anew, beside pread over the file
//   penstock_start_bench ready FILE [ROUNDS]    from the start of a process to a shuffled graph
//   over
//       TFRecords whose index lies beside them
//   penstock_start_bench first FOLDER [THREADS] [ROUNDS]   the first batch of 256 crops of images,
//       beside 256 of those decodes, on as many threads

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <penstock/penstock.h>

#include "bench/limits.h"
#include "bench/main.h"
#include "bench/measure.h"

namespace penstock::bench {
namespace {

using Clock = std::chrono::steady_clock;

void bench_index(const std::string& file, int rounds) {
  std::vector<double> rates;
  std::vector<double> ratios;
  std::int64_t records = 0;
  for (int round = -1; round < rounds; ++round) {
    const ReadLoop pread = read_loop({file}, 1, 256 << 10, ReadWay::in_order);
    TFRecordOptions options;
    options.index_folder = "-";
    const auto start = Clock::now();
    records = tfrecord({file}, options).cardinality();
    const double took = seconds_since(start);
    if (round < 0) continue;
    rates.push_back(1e-9 * static_cast<double>(pread.bytes) / took);
    ratios.push_back(pread.seconds / took);
  }
  std::printf(
      "{\"bench\":\"start\",\"what\":\"index\",\"records\":%lld,\"gb_per_second\":%.3f,"
      "\"of_pread\":%.3f}\n",
      static_cast<long long>(records), median(rates), median(ratios));
}

/// In a process of its own, begun at `began`.
int become_ready(const std::string& file, const std::string& began) {
  const Dataset dataset = tfrecord({file}).shuffle().batch(64);
  const Iterator iterator = dataset.iterate({.seed = 7});
  const auto now = Clock::now().time_since_epoch().count();
  std::printf("%.6f %lld\n", 1e-6 * static_cast<double>(now - std::stoll(began)),
              static_cast<long long>(tfrecord({file}).cardinality()));
  return 0;
}

void bench_ready(const std::string& self, const std::string& file, int rounds) {
  (void)tfrecord({file});  // its index is there from now on
  std::vector<double> times;
  long long records = 0;
  for (int round = -1; round < rounds; ++round) {
    const std::string began = std::to_string(Clock::now().time_since_epoch().count());
    const std::string command = "'" + self + "' child '" + file + "' " + began;
    std::FILE* const child = popen(command.c_str(), "r");
    double ms = 0;
    if (child == nullptr || std::fscanf(child, "%lf %lld", &ms, &records) != 2) {
      throw std::runtime_error("the child said nothing");
    }
    pclose(child);
    if (round >= 0) times.push_back(ms);
  }
  std::printf("{\"bench\":\"start\",\"what\":\"ready\",\"records\":%lld,\"ms\":%.1f}\n", records,
              median(times));
}

void bench_first(const std::string& folder, int threads, int rounds) {
  constexpr std::int64_t kBatch = 256;
  const Files files = load_images(folder);
  if (files.size() < kBatch) throw std::runtime_error("fewer than 256 images");
  const Files some(files.begin(), files.begin() + kBatch);
  const Dataset dataset =
      images(folder)
          .shuffle()
          .map_op(decode_image().random_resized_crop(224).random_flip().normalize().op())
          .batch(kBatch);
  std::vector<double> ratios;
  std::vector<double> times;
  for (int round = -1; round < rounds; ++round) {
    const double loop = region_loop(some, 1, threads);
    const auto start = Clock::now();
    Iterator iterator = dataset.iterate({.seed = kSeed, .threads = threads});
    if (iterator.next().value().valid_rows != kBatch) throw std::runtime_error("a short batch");
    const double took = seconds_since(start);
    if (round < 0) continue;
    times.push_back(1e3 * took);
    ratios.push_back(took / loop);
  }
  std::printf(
      "{\"bench\":\"start\",\"what\":\"first\",\"threads\":%d,\"ms\":%.1f,\"of_decodes\":%.3f}\n",
      threads, median(times), median(ratios));
}

}  // namespace

int run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const auto number = [&](int at, int otherwise) {
    return argc > at ? std::max(1, std::atoi(argv[at])) : otherwise;
  };
  if (what == "child" && argc == 4) return become_ready(argv[2], argv[3]);
  if (what == "index" && argc > 2) {
    bench_index(argv[2], number(3, 5));
  } else if (what == "ready" && argc > 2) {
    bench_ready(argv[0], argv[2], number(3, 7));
  } else if (what == "first" && argc > 2) {
    bench_first(argv[2], number(3, 1), number(4, 7));
  } else {
    std::fprintf(stderr,
                 "usage: penstock_start_bench index|ready FILE [ROUNDS]\n"
                 "       penstock_start_bench first FOLDER [THREADS] [ROUNDS]\n");
    return 2;
  }
  return 0;
}

}  // namespace penstock::bench
