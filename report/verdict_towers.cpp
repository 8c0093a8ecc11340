// The limits of towers, found from the cost of each cause of their waits.
#include <algorithm>
#include <string>

#include "report/format.h"
#include "report/printable.h"
#include "report/verdict.h"

namespace penstock {
namespace {

double a_step(const TowerStats& tower) {
  return tower.steps > 0 ? tower.step_s / static_cast<double>(tower.steps) : 0;
}

const TowerStats& most_stalled(const RunReport& report) {
  return *std::ranges::max_element(report.towers, {}, &TowerStats::stall_s);
}

std::string most_waited_for(const TowerStats& tower) {
  const auto most =
      std::ranges::max_element(tower.causes, {}, &std::pair<std::string, double>::second);
  return most == tower.causes.end() ? "nothing" : printable(most->first);
}

/// Returns the stage of the input that a cause names; null if it names none.
const StageStats* stage_of(const std::string& cause, const RunReport& report) {
  const auto& stages = report.stats.stages;
  if (cause == "source") return stages.empty() ? nullptr : &stages.front();
  for (const StageStats& stage : stages)
    if (cause == "stage " + stage.name) return &stage;
  return nullptr;
}

void say_copy(Verdict& verdict, const RunReport& report) {
  const TowerStats& tower = most_stalled(report);
  verdict.text = "Copies to " + printable(tower.device) + " limit the run: one takes " +
                 human_seconds(tower.copy_s / static_cast<double>(tower.steps)) + ", a step " +
                 human_seconds(a_step(tower));
  verdict.remedy =
      "fewer bytes (u8 images that are finished on the device) or a faster link "
      "would help";
}

void say_slots(Verdict& verdict, const RunReport& report) {
  const std::string now = std::to_string(report.device_slots);
  verdict.text = "Slots on the devices limit the run: each tower has " + now +
                 ", and waits until one is free and filled";
  verdict.remedy = knobs(report).device_slots + std::to_string(report.device_slots + 1);
}

void say_other_tower(Verdict& verdict, const RunReport& report) {
  const TowerStats& slowest = *std::ranges::max_element(report.towers, {}, a_step);
  const TowerStats& fastest = *std::ranges::min_element(report.towers, {}, a_step);
  verdict.text = "One tower holds the others up: " + printable(slowest.device) + " takes " +
                 human_seconds(a_step(slowest)) + " for a step, " + printable(fastest.device) +
                 " " + human_seconds(a_step(fastest)) + ", and they are served in turn";
  verdict.remedy = std::string(knobs(report).out_of_turn) + " would help";
}

void say_input(Verdict& verdict, const RunReport& report) {
  const StageStats* stage = stage_of(verdict.cause, report);
  const std::string name = stage != nullptr ? short_name(*stage) : "The input";
  const bool waits = stage != nullptr && stage->apart_s > 0.5 * stage->busy_s;
  const bool reads = waits && verdict.cause == "source";
  const double whole = report.wall_s * std::max(1, report.stats.threads);
  verdict.text = name + " limits the run: the towers wait for it";
  if (waits)
    verdict.text += ", with " + human_count(stage->apart_s / report.wall_s) +
                    (reads ? " reads under way on average" : " threads waiting in it on average");
  if (stage != nullptr && !waits)
    verdict.text += ", and it takes " + human_share(std::min(1.0, stage->busy_s / whole)) +
                    " of what the threads can do";
  verdict.remedy = stage == nullptr ? "a faster input would help"
                   : reads          ? reading_help(report)
                   : waits          ? waiting_help(report)
                                    : compute_help(report, *stage);
}

bool of_the_input(const std::string& cause) {
  return cause == "source" || cause.starts_with("stage ");
}

Verdict nothing_to_gain(const RunReport& report) {
  const TowerStats& tower = most_stalled(report);
  if (tower.stall_share() < 0.05) {
    return {.cause = "step",
            .remedy = "a faster input would change nothing",
            .text = "The towers' steps limit the run: they stalled at most " +
                    human_share(tower.stall_share()) +
                    " of the time; a faster input would change nothing."};
  }
  return {.cause = most_waited_for(tower),
          .text = printable(tower.device) + " stalled " + human_share(tower.stall_share()) +
                  " of the time, mostly for " + most_waited_for(tower) +
                  (tower.gains.empty() ? "." : ", but no one cause alone costs 2% of the time.")};
}

}  // namespace

Verdict towers_verdict(const RunReport& report) {
  // In a short run, the first batch alone may take more than this share.
  if (report.feed.cause.empty() || most_stalled(report).stall_share() < 0.02)
    return nothing_to_gain(report);
  if (of_the_input(report.feed.cause) && cpu_share(report) < 1) {
    // The gain is at most that of removing the stage that needs the CPU.
    Verdict verdict = starved_verdict(report);
    verdict.gain_s = std::min(verdict.gain_s, report.feed.gain_s);
    verdict.rate_then = verdict.rate_then > 0 ? std::min(verdict.rate_then, report.feed.rate_then)
                                              : report.feed.rate_then;
    verdict.rate_half = std::min(verdict.rate_half, verdict.rate_then);
    verdict.text += prize(verdict, report);
    return verdict;
  }
  if (of_the_input(report.feed.cause)) {
    if (std::optional<Verdict> elsewhere = workers_verdict(report)) {
      elsewhere->gain_s = std::min(elsewhere->gain_s, most_stalled(report).stall_s);
      elsewhere->text += prize(*elsewhere, report);
      return *elsewhere;
    }
  }
  Verdict verdict{.cause = report.feed.cause,
                  .gain_s = report.feed.gain_s,
                  .rate_then = report.feed.rate_then,
                  .rate_half = report.feed.rate_half};
  if (verdict.cause == "copy") {
    say_copy(verdict, report);
  } else if (verdict.cause == "slots") {
    say_slots(verdict, report);
  } else if (verdict.cause == "other tower") {
    say_other_tower(verdict, report);
  } else if (verdict.cause == "budget") {
    verdict.text = "The memory budget limits the run: the input waits for its slots to come back";
    verdict.remedy = memory_help(report);
  } else {
    say_input(verdict, report);
  }
  verdict.text += "; " + verdict.remedy + "." + prize(verdict, report);
  return verdict;
}

}  // namespace penstock
