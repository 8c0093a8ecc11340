// Makes values of many items at a time.
#include <array>
#include <chrono>

#include "pipeline/core/rows.h"
#include "pipeline/engine/executor.h"
#include "pipeline/order/support.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostRows = 512;
constexpr std::size_t kMostSteps = 16;

void compute_run(std::span<const Item> items, const Place& place, const Program& program,
                 GroupContext& context) {
  const std::size_t rows = items.size();
  std::array<std::uint64_t, kMostRows> indices;
  for (std::size_t i = 0; i < rows; ++i) indices[i] = items[i].index;
  const std::vector<Program::Step>& steps = program.steps();
  std::array<std::uint64_t, kMostSteps + 1> took{};
  auto start = Clock::now();
  const auto lap = [&start] {
    const auto begin = std::exchange(start, Clock::now());
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(start - begin).count());
  };
  Element in;
  Element out = steps.empty() ? place.slot->columns(place.row, rows)
                              : make_rows(program.leaf_spec(), program.leaf_names(), rows, context);
  program.source()->read_columns({indices.data(), rows}, out);
  took[0] = lap();
  for (std::size_t s = 0; s < steps.size(); ++s) {
    in = std::move(out);
    out = s + 1 == steps.size() ? place.slot->columns(place.row, rows)
                                : make_rows(steps[s].spec, steps[s].names, rows, context);
    steps[s].op->run_columns(in, out);
    took[s + 1] = lap();
  }
  // Only now: had an op thrown, all of it would be done again.
  const auto bytes = [rows](std::int64_t each) {
    return rows * static_cast<std::uint64_t>(std::max<std::int64_t>(each, 0));
  };
  add_counters(program.leaf_counters(), rows, bytes(program.leaf_fixed_bytes()), took[0]);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    add_counters(steps[s].counters, rows, bytes(steps[s].fixed_bytes), took[s + 1]);
  }
}

}  // namespace

std::size_t compute_columns(std::span<const Item> items, const Places& places,
                            GroupContext& context) {
  const Program& program = *items.front().program;
  if (program.steps().size() > kMostSteps) return 0;
  const Place place = places.next(std::min(items.size(), kMostRows));
  try {
    compute_run(items.first(place.count), place, program, context);
  } catch (...) {
    return 0;
  }
  return place.count;
}

}  // namespace penstock
