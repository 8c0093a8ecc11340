#include "report/prizes.h"

#include <algorithm>
#include <numeric>

#include "report/format.h"
#include "report/pace.h"
#include "report/verdict.h"

namespace penstock {
namespace {

/// The division of a run's time.
class Times {
 public:
  explicit Times(const RunReport& report) : pace(pace_of(report.stats)), wall_(report.wall_s) {
    for (const StageStats& stage : report.stats.stages)
      if (stage.waits_on == "memory") without_memory = std::max(without_memory, stage.wait_s);
    if (report.towers.empty()) {
      waiting = std::max(0.0, report.wait_s - report.first_batch_s);
      steps = std::max(0.0, report.wall_s - report.wait_s);
      return;
    }
    for (const TowerStats& tower : report.towers) {
      waiting += tower.stall_s / static_cast<double>(report.towers.size());
      steps += tower.step_s / static_cast<double>(report.towers.size());
    }
  }

  double works() const { return pace.works(); }
  /// Returns the time in which the input did nothing.
  double idles() const { return std::max(0.0, wall_ - works()); }
  /// Returns the time that an input saves if its threads of each kind take this long instead.
  double saved(const Pace& then) const { return works() - then.works(); }

  const Pace pace;
  double without_memory = 0;
  double waiting = 0;  ///< of the consumer, except for its first batch
  double steps = 0;

 private:
  const double wall_;
};

class Prizes {
 public:
  explicit Prizes(const RunReport& report) : report_(report), times_(report) {}

  std::vector<Prize> all() {
    free_input();
    one_more_core();
    twice_the_memory();
    packed_images();
    faster_steps();
    return std::move(prizes_);
  }

 private:
  /// Adds a change that makes the run shorter by a number of seconds between these bounds.
  void add(const char* change, double least_s, double most_s) {
    constexpr double kLeftAtLeast = 0.05;  // the next limit is unknown
    const double wall = report_.wall_s;
    most_s = std::clamp(most_s, 0.0, (1 - kLeftAtLeast) * wall);
    least_s = std::clamp(least_s, 0.0, most_s);
    const auto elements = static_cast<double>(report_.elements);
    const Prize prize{change, elements / (wall - least_s), elements / (wall - most_s)};
    if (prize.high >= 1.02 * elements / wall) prizes_.push_back(prize);
  }

  void free_input() {
    double least = times_.waiting;
    for (const TowerStats& tower : report_.towers) {
      double one = 0;  // copies or slots may become the limit
      for (const auto& [cause, seconds] : tower.gains)
        if (cause == "source" || cause.starts_with("stage ")) one = std::max(one, seconds);
      least = std::min(least, one);
    }
    add("a free input", least, times_.waiting + report_.first_batch_s);
  }

  void one_more_core() {
    if (cpu_share(report_) < 1) return;  // other processes would use it
    const double threads = std::max(1, report_.stats.threads);
    const double saved =
        made_here(report_.stats) *
        times_.saved({times_.pace.apart, times_.pace.computing * threads / (threads + 1)});
    add("one more core", std::min(saved - times_.idles(), times_.waiting),
        std::min(saved, times_.waiting));
  }

  void twice_the_memory() {
    const bool few = report_.slot_bytes > 0 && slots_that_fit(report_) < report_.slots_wanted;
    const double most = std::min(few ? times_.idles() : times_.without_memory, times_.waiting);
    // If only one batch fits, room for two lets the input and its consumer work at the same time.
    add("twice the memory", few && slots_that_fit(report_) == 1 ? most / 2 : 0, most);
  }

  void packed_images() {
    const auto& decoding = report_.decoding;
    if (decoding.images.jpeg == 0 || decoding.jpeg_coefficients + decoding.jpeg_indexed > 0) return;
    double decoding_s = 0;
    for (const StageStats& stage : report_.stats.stages)
      if (stage.name.find("decode") != stage.name.npos)
        decoding_s += (stage.busy_s - stage.apart_s) / std::max(1, report_.stats.threads);
    const bool timed = decoding.timed_s > 0;
    if (timed) decoding_s *= 1 - decoding.timed_pixels_s / decoding.timed_s;
    const Pace& pace = times_.pace;
    // Records save at least half of the decoding, and have half again as many bytes to read.
    const double least = times_.saved({1.5 * pace.apart, pace.computing - decoding_s / 2});
    const double most = times_.saved({pace.apart, pace.computing - decoding_s});
    add("images packed as records", timed ? std::min(least - times_.idles(), times_.waiting) : 0,
        std::min(most, times_.waiting));
  }

  void faster_steps() {
    double busy = times_.works() + times_.without_memory;  // the parts that do not become faster
    for (const TowerStats& tower : report_.towers) busy = std::max(busy, tower.copy_s);
    const double half = times_.steps / 2;
    const double rest = report_.wall_s - busy;
    add("steps twice as fast", std::min(half, rest - times_.waiting), std::min(half, rest));
  }

  const RunReport& report_;
  const Times times_;
  std::vector<Prize> prizes_;
};

}  // namespace

std::vector<Prize> prizes(const RunReport& report) {
  if (report.wall_s <= 0 || too_short(report)) return {};
  return Prizes(local_part(report)).all();
}

std::string prizes_text(const RunReport& report) {
  std::string text;
  for (const Prize& prize : prizes(report)) {
    const bool one = prize.high < 1.02 * prize.low;
    text += (text.empty() ? "" : ", ") + (one ? "" : human_count(prize.low) + " to ") +
            human_count(prize.high) + " with " + prize.change;
  }
  if (text.empty()) return "";
  return "In elements/s, " + human_count(report.elements_per_second()) + " now: " + text + ".";
}

}  // namespace penstock
