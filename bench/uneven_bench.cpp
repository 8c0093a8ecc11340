// Elements of uneven cost, in order and as they finish, in turns:
//   penstock_uneven_bench [THREADS] [ROUNDS] [ELEMENTS]
// An element takes a millisecond on average. In `rare`, one in a hundred takes a hundred times as
// long as the others; in `lognormal`, costs have a sigma of 1.5. Elements that wait use no CPU.
// Prints a JSON line for each case: the rate in order / the rate as they finish, a median. The last
// line has the least of them.

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <thread>
#include <vector>

#include <penstock/penstock.h>

#include "bench/main.h"
#include "bench/measure.h"

namespace penstock::bench {
namespace {

constexpr std::int64_t kBytes = 150'000;

struct Case {
  const char* name;
  bool waits;
  bool rare;
  std::int64_t rows;  // of a batch; 0: values
};

/// Milliseconds of each element, with a mean of about one.
std::vector<double> costs(std::int64_t count, bool rare) {
  Rng rng(17, 0, 0);
  std::vector<double> made;
  for (std::int64_t i = 0; i < count; ++i) {
    const double sigma = 1.5;
    made.push_back(rare ? (rng.coin(0.01) ? 50 : 0.5)
                        : std::exp(sigma * rng.normal() - sigma * sigma / 2));
  }
  return made;
}

void compute_for(double ms) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
  };
  for (const double end = now() + ms; now() < end;) {
  }
}

/// An element has as many bytes as an image, so that few batches are begun at a time.
double seconds_of(const Case& one, const std::vector<double>& cost, bool ordered, int threads) {
  const auto take = [&cost, waits = one.waits](const Element& in, Element& out, Rng&) {
    const std::int64_t number = in[0].values<std::int64_t>()[0];
    const double ms = cost[static_cast<std::size_t>(number)];
    if (waits) {
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
    } else {
      compute_for(ms);
    }
    out[0].mutable_values<std::int64_t>()[0] = number;
  };
  const auto count = static_cast<std::int64_t>(cost.size());
  Dataset dataset = range(count).map(
      take, {.output = Spec({{"x", DType::i64, {}}, {"image", DType::u8, {kBytes}}}),
             .blocking = one.waits,
             .ordered = ordered});
  if (one.rows > 0) dataset = dataset.batch(one.rows);
  const auto start = std::chrono::steady_clock::now();
  Iterator iterator = dataset.iterate({.seed = 7, .threads = threads});
  std::int64_t seen = 0;
  for (const Element& element : iterator) {
    const std::int64_t first = element[0].values<std::int64_t>()[0];
    if (ordered && first != seen) throw std::logic_error("elements came out of order");
    seen += std::max<std::int64_t>(element.valid_rows, 1);
  }
  if (seen != count) throw std::logic_error("elements are missing");
  return seconds_since(start);
}

}  // namespace

int run(int argc, char** argv) {
  const int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 2;
  const int rounds = argc > 2 ? std::max(1, std::atoi(argv[2])) : 3;
  const std::int64_t count = argc > 3 ? std::max(100, std::atoi(argv[3])) : 10'000;
  double least = HUGE_VAL;
  for (const bool waits : {true, false}) {
    for (const bool rare : {true, false}) {
      const std::vector<double> cost = costs(count, rare);
      for (const std::int64_t rows : {0, 32}) {
        const Case one{rare ? "rare" : "lognormal", waits, rare, rows};
        std::vector<double> ratios;
        double seconds[2] = {};
        for (int round = 0; round < rounds; ++round) {
          for (const int side : {round % 2, 1 - round % 2}) {
            seconds[side] = seconds_of(one, cost, side == 0, threads);
          }
          ratios.push_back(seconds[1] / seconds[0]);
        }
        std::printf(
            "{\"bench\":\"uneven\",\"costs\":\"%s\",\"op\":\"%s\",\"rows\":%lld,\"threads\":%d,"
            "\"seconds\":%.2f,\"ordered_of_unordered\":%.3f}\n",
            one.name, waits ? "waits" : "computes", static_cast<long long>(rows), threads,
            seconds[0], median(ratios));
        std::fflush(stdout);
        least = std::min(least, median(ratios));
      }
    }
  }
  std::printf("{\"bench\":\"uneven\",\"threads\":%d,\"least_ordered_of_unordered\":%.3f}\n",
              threads, least);
  return 0;
}

}  // namespace penstock::bench
