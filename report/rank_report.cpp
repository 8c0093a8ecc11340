#include "report/rank_report.h"

#include <algorithm>
#include <cstdint>

#include <nlohmann/json.hpp>

#include <penstock/error.h>
#include <penstock/version.h>

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, why, {.shard = file});
}

/// Numbers that are not finite are null in JSON, and so are unknown ones.
double number(const Json& json, const char* name) {
  const Json& value = json.at(name);
  return value.is_null() ? 0 : value.get<double>();
}

std::string text_or_empty(const Json& json, const char* name) {
  const Json& value = json.at(name);
  return value.is_null() ? "" : value.get<std::string>();
}

int whole(const Json& value, const std::string& file) {
  constexpr std::uint64_t kMost = 1'000'000;
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMost)
    refuse(file, "the rank of this report, or the number of ranks, is invalid");
  return value.get<int>();
}

const Json& longest_run(const Json& runs) {
  const auto before = [](const Json& a, const Json& b) {
    const bool a_feeds = a.contains("towers");
    const bool b_feeds = b.contains("towers");
    return a_feeds != b_feeds ? b_feeds : number(a, "wall_s") < number(b, "wall_s");
  };
  return *std::max_element(runs.begin(), runs.end(), before);
}

// Another tower of the same rank is no reason why the rank is slow: its own cause is.
constexpr const char* kOtherTower = "other tower";

/// Returns the share of its time in which the tower waited for anything but other towers.
double own_stall(const Json& tower) {
  const Json& causes = tower.at("causes");
  const double others_s = causes.contains(kOtherTower) ? number(causes, kOtherTower) : 0;
  const double wall_s = number(tower, "wall_s");
  return wall_s > 0 ? std::max(0.0, number(tower, "stall_s") - others_s) / wall_s : 0;
}

std::string main_cause(const Json& tower) {
  std::string cause;
  double most = 0;
  for (const auto& [name, seconds] : tower.at("causes").items()) {
    if (name == kOtherTower || seconds.get<double>() <= most) continue;
    most = seconds.get<double>();
    cause = name;
  }
  return cause;
}

/// Returns the stage that the cause names or, for a lack of memory or CPU time, the stage that
/// lacks most of it.
std::string stage_of(const std::string& cause, const Json& stages) {
  constexpr std::string_view kStage = "stage ";
  if (cause.starts_with(kStage)) return cause.substr(kStage.size());
  if (cause == "source") return stages.empty() ? "" : stages.front().at("name").get<std::string>();
  if (cause != "budget" && cause != "cpu") return "";
  std::string stage;
  double most = 0;
  for (const Json& each : stages) {
    const bool lacks = cause == "cpu" || text_or_empty(each, "waits_on") == "memory";
    const double seconds = number(each, cause == "cpu" ? "busy_s" : "wait_s");
    if (!lacks || seconds <= most) continue;
    most = seconds;
    stage = each.at("name").get<std::string>();
  }
  return stage;
}

void read_run(RankReport& report, const Json& run) {
  report.elements_per_s = number(run, "elements_per_second");
  const Json& verdict = run.at("verdict");
  report.cause = text_or_empty(verdict, "cause");
  report.text = text_or_empty(verdict, "text");
  report.remedy = text_or_empty(verdict, "remedy");
  double towers = 1;
  if (run.contains("towers") && !run.at("towers").empty()) {
    const Json& all = run.at("towers");
    const auto most = std::max_element(all.begin(), all.end(), [](const Json& a, const Json& b) {
      return own_stall(a) < own_stall(b);
    });
    towers = static_cast<double>(all.size());
    report.stall_share = own_stall(*most);
    if (report.cause.empty() || report.cause == kOtherTower) report.cause = main_cause(*most);
  } else {
    report.stall_share = number(run, "stall_share");
  }
  const double stepping_s = number(run, "wall_s") - 1e-3 * number(run, "first_batch_ms");
  if (stepping_s > 0) report.steps_per_s = number(run, "batches") / towers / stepping_s;
  report.stage = stage_of(report.cause, run.at("stages"));
  if (report.cause == "source" && !run.at("slow_shard").is_null())
    report.shard = run.at("slow_shard").at("path").get<std::string>();
}

}  // namespace

RankReport parse_rank_report(const std::string& file, std::string_view text) {
  RankReport report{.file = file};
  try {
    const Json json = Json::parse(text);
    const std::string written_by = json.at("penstock").get<std::string>();
    if (written_by != version())
      refuse(file, "a report of version " + written_by + ", and this is version " + version());
    report.rank = whole(json.at("rank"), file);
    report.ranks = json.at("ranks").is_null() ? 0 : whole(json.at("ranks"), file);
    report.host = json.at("host").get<std::string>();
    if (json.at("runs").empty()) refuse(file, "no run had begun when this report was written");
    const Json& run = longest_run(json.at("runs"));
    read_run(report, run);
    const auto exposed = json.find("exposed_s");
    const double wall_s = number(run, "wall_s");
    if (exposed != json.end() && exposed->is_number() && wall_s > 0)
      report.exposed_share = exposed->get<double>() / wall_s;
  } catch (const Json::exception&) {
    refuse(file, "not a JSON report written by PENSTOCK_REPORT");
  }
  return report;
}

}  // namespace penstock
