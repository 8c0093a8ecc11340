// What the ledger of gains costs a step: penstock_ledger_bench [TOWERS] [STAGES] [STEPS]
// Prints nanoseconds of CPU time for each step of all towers, in which everything is replayed once
// for each cause of waiting, and once for half of it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/main.h"
#include "bench/measure.h"
#include "staging/gains.h"

namespace penstock::bench {
namespace {

constexpr std::int64_t kStep = 10'000'000;

BatchTimes times_of(std::int64_t step) {
  const std::int64_t at = step * kStep;
  BatchTimes times;
  times.rows = 64;
  times.put = at;
  times.staged = at + 1000;
  times.ready = at + 2'000'000;
  times.asked = at + 2'000'000;
  times.passed = at + 2'100'000;
  times.stepped = times.ended = at + 9'000'000;
  times.released = at + 9'000'000;
  return times;
}

}  // namespace

int run(int argc, char** argv) {
  const auto number = [&](int at, int otherwise) {
    return argc > at ? std::max(1, std::atoi(argv[at])) : otherwise;
  };
  const int towers = number(1, 1);
  const int stages = number(2, 4);
  const int steps = number(3, 200'000);
  GainLedger ledger({.towers = towers});
  std::vector<InputPart> parts{{"source", 0.8, 0.9}};
  for (int i = 1; i < stages; ++i) parts.push_back({"stage " + std::to_string(i), 0.9, 0.95});
  parts.push_back({"budget", 1, 1});
  ledger.set_parts(parts);
  const double before = process_seconds();
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::int64_t at = step * kStep;
    ledger.roomed(at - 2000);
    ledger.pulled({.got = at - 1000, .made = at - 5000, .slots = 4});
    for (int t = 0; t < towers; ++t) ledger.give(t);
    ledger.close();
    for (int t = 0; t < towers; ++t) ledger.finished(t, times_of(step));
  }
  std::printf("%d towers, %d stages: %.0f ns a step\n", towers, stages,
              1e9 * (process_seconds() - before) / steps);
  return 0;
}

}  // namespace penstock::bench
