#include <penstock/input_parts.h>

#include <algorithm>

namespace penstock {
namespace {

/// Seconds of threads' time between two looks.
struct Spent {
  double reading = 0;
  std::vector<double> stages;  // of those behind the source
  double computing = 0;
  double without_memory = 0;
};

Spent spent(const Stats& before, const Stats& now) {
  Spent result;
  for (std::size_t i = 0; i < now.stages.size(); ++i) {
    const bool known = i < before.stages.size();
    const StageStats& stage = now.stages[i];
    const double busy = stage.busy_s - (known ? before.stages[i].busy_s : 0);
    if (i == 0) {
      result.reading = busy;
    } else {
      result.stages.push_back(busy);
      result.computing += busy;
    }
    if (stage.waits_on == "memory") {
      result.without_memory =
          std::max(result.without_memory, stage.wait_s - (known ? before.stages[i].wait_s : 0));
    }
  }
  return result;
}

}  // namespace

std::vector<InputPart> input_parts(const Stats& before, const Stats& now, double elapsed_s) {
  const Spent time = spent(before, now);
  const double threads = std::max(1, now.threads);
  const bool apart = now.readers > 0;
  const double reads = apart ? time.reading / now.readers : 0;
  const double computes = (time.computing + (apart ? 0 : time.reading)) / threads;
  const double works = std::max(reads, computes);
  const double whole = std::max(works + time.without_memory, elapsed_s);
  const auto left_with = [&](double works_then) {
    return whole > 0 ? std::clamp(1 - (works - works_then) / whole, 0.0, 1.0) : 1.0;
  };
  // Without a share of the source's work, or of a stage's.
  const auto less_reading = [&](double share) {
    const double computing = computes - (apart ? 0 : share * time.reading / threads);
    return left_with(std::max((1 - share) * reads, computing));
  };
  const auto less_of = [&](double stage, double share) {
    return left_with(std::max(reads, computes - share * stage / threads));
  };
  const auto less_waiting = [&](double share) {
    return whole > 0 ? std::clamp(1 - share * time.without_memory / whole, 0.0, 1.0) : 1.0;
  };
  std::vector<InputPart> parts;
  const bool known = !time.stages.empty();
  parts.push_back({"source", known ? less_reading(1) : 0, known ? less_reading(0.5) : 0.5});
  for (std::size_t i = 0; i < time.stages.size(); ++i)
    parts.push_back({"stage " + now.stages[i + 1].name, less_of(time.stages[i], 1),
                     less_of(time.stages[i], 0.5)});
  parts.push_back({"budget", less_waiting(1), less_waiting(0.5)});
  return parts;
}

const InputPart& worst(const std::vector<InputPart>& parts) {
  return *std::ranges::min_element(parts, {}, &InputPart::left);
}

}  // namespace penstock
