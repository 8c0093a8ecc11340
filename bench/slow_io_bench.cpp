// The same work from the page cache and from a device whose every read takes a while, in turns:
//   penstock_slow_io_bench images FOLDER [THREADS] [MS] [ROUNDS] [SECONDS]
//   penstock_slow_io_bench tfrecord|tar FILE [THREADS] [MS] [ROUNDS] [SECONDS]
// `images` are decoded, cropped, flipped and normalised in random order; records are batched as
// bytes, front to back, after 200 us of work each. Prints a JSON line of ratios, medians over the
// rounds: of rates behind the first second, of those from the first call on, and of CPU time.

#include <algorithm>
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

/// Burns what a cheap decoder would.
Element work_on(Element element) {
  const auto start = Clock::now();
  while (Clock::now() - start < std::chrono::microseconds(200)) {
  }
  return element;
}

Dataset open(const std::string& kind, const std::string& path, FileSystemPtr files) {
  if (kind == "images") {
    ImagesOptions options;
    options.files = std::move(files);
    return images(path, options)
        .shuffle()
        .repeat()
        .map_op(decode_image().random_resized_crop(224).random_flip().normalize().op())
        .batch(64);
  }
  if (kind == "tfrecord") {
    TFRecordOptions options;
    options.files = std::move(files);
    return tfrecord({path}, options).repeat().map(work_on).batch(64);
  }
  TarOptions options;
  options.files = std::move(files);
  return tar({path}, options).repeat().map(work_on).batch(64);
}

struct Figures {
  double steady = 0;  // elements a second behind the first
  double whole = 0;
  double cpu = 0;  // microseconds an element
  double first_batch = 0;
};

Figures measure(const Dataset& dataset, int threads, double seconds) {
  const double cpu = process_seconds();
  const auto start = Clock::now();
  Iterator iterator = dataset.iterate({.seed = 7, .threads = threads});
  Figures figures;
  double elements = 0;
  double before = 0;
  double began = 0;
  for (double now = 0; now < seconds;) {
    elements += static_cast<double>(iterator.next().value().valid_rows);
    now = seconds_since(start);
    if (figures.first_batch == 0) figures.first_batch = now;
    if (began == 0 && now >= 1) {
      began = now;
      before = elements;
    }
  }
  const double took = seconds_since(start);
  figures.whole = elements / took;
  figures.steady = (elements - before) / (took - began);
  figures.cpu = 1e6 * (process_seconds() - cpu) / elements;
  return figures;
}

}  // namespace

int run(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "";
  if (argc < 3 || (kind != "images" && kind != "tfrecord" && kind != "tar")) {
    std::fprintf(stderr,
                 "usage: penstock_slow_io_bench images|tfrecord|tar PATH [THREADS] [MS] [ROUNDS] "
                 "[SECONDS]\n");
    return 2;
  }
  const auto number = [&](int at, double otherwise) {
    return argc > at ? std::atof(argv[at]) : otherwise;
  };
  const int threads = static_cast<int>(number(3, 0));
  const auto latency = std::chrono::microseconds(static_cast<long>(1000 * number(4, 20)));
  const int rounds = std::max(1, static_cast<int>(number(5, 3)));
  const double seconds = std::max(2.0, number(6, 4));
  const Dataset fast = open(kind, argv[2], default_file_system());
  const Dataset slow =
      open(kind, argv[2], std::make_shared<SlowFiles>(default_file_system(), latency));
  std::vector<double> steady;
  std::vector<double> whole;
  std::vector<double> cpu;
  std::vector<double> rates;
  std::vector<double> slow_rates;
  std::vector<double> first;
  for (int round = 0; round < rounds; ++round) {
    Figures figures[2];
    for (const int side : {round % 2, 1 - round % 2}) {
      figures[side] = measure(side == 0 ? fast : slow, threads, seconds);
    }
    rates.push_back(figures[0].steady);
    slow_rates.push_back(figures[1].steady);
    steady.push_back(figures[1].steady / figures[0].steady);
    whole.push_back(figures[1].whole / figures[0].whole);
    cpu.push_back(figures[1].cpu / figures[0].cpu);
    first.push_back(figures[1].first_batch);
  }
  std::printf(
      "{\"bench\":\"slow-io\",\"what\":\"%s\",\"latency_ms\":%.3f,\"threads\":%d,\"rounds\":%d,"
      "\"fast_per_second\":%.0f,\"slow_per_second\":%.0f,\"ratio\":%.3f,\"with_start\":%.3f,"
      "\"cpu_ratio\":%.3f,\"first_batch_ms\":%.0f}\n",
      kind.c_str(), 1e-3 * static_cast<double>(latency.count()), threads, rounds, median(rates),
      median(slow_rates), median(steady), median(whole), median(cpu), 1e3 * median(first));
  return 0;
}

}  // namespace penstock::bench
