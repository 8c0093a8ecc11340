#include <penstock/internal/input_parts.h>

#include <algorithm>

namespace penstock {
namespace {

/// The seconds spent between two snapshots of a run's statistics.
struct Spent {
  /// The times of a stage, as if all threads available for its work had shared it equally.
  struct Stage {
    double apart = 0;
    double computing = 0;
  };
  std::vector<Stage> stages;
  Stage all;
  double without_memory = 0;
};

Spent spent(const Stats& before, const Stats& now) {
  Spent result;
  const double threads = std::max(1, now.threads);
  const double readers = std::max(1, now.readers);
  for (std::size_t i = 0; i < now.stages.size(); ++i) {
    const StageStats none;
    const StageStats& then = i < before.stages.size() ? before.stages[i] : none;
    const StageStats& stage = now.stages[i];
    const double apart = stage.apart_s - then.apart_s;
    const double computing = stage.busy_s - then.busy_s - apart;
    result.stages.push_back({apart / readers, computing / threads});
    result.all.apart += result.stages.back().apart;
    result.all.computing += result.stages.back().computing;
    if (stage.waits_on == "memory")
      result.without_memory = std::max(result.without_memory, stage.wait_s - then.wait_s);
  }
  return result;
}

}  // namespace

std::vector<InputPart> input_parts(const Stats& before, const Stats& now, double elapsed_s) {
  const Spent time = spent(before, now);
  const double works = std::max(time.all.apart, time.all.computing);
  const double whole = std::max(works + time.without_memory, elapsed_s);
  const auto left_without = [&](double seconds) {
    return whole > 0 ? std::clamp(1 - seconds / whole, 0.0, 1.0) : 1.0;
  };
  // Returns the share of time that is left without `share` of one stage's work.
  const auto less_of = [&](const Spent::Stage& stage, double share) {
    return left_without(works - std::max(time.all.apart - share * stage.apart,
                                         time.all.computing - share * stage.computing));
  };
  std::vector<InputPart> parts;
  for (std::size_t i = 0; i < time.stages.size(); ++i) {
    const Spent::Stage& stage = time.stages[i];
    parts.push_back({i == 0 ? "source" : "stage " + now.stages[i].name, less_of(stage, 1),
                     less_of(stage, 0.5)});
  }
  if (time.stages.size() <= 1) parts = {{"source", 0, 0.5}};  // the source is the only part
  parts.push_back(
      {"budget", left_without(time.without_memory), left_without(0.5 * time.without_memory)});
  return parts;
}

const InputPart& worst(const std::vector<InputPart>& parts) {
  return *std::ranges::min_element(parts, {}, &InputPart::left);
}

}  // namespace penstock
