#include "report/merge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include <nlohmann/json.hpp>

#include <penstock/error.h>
#include <penstock/version.h>

#include "report/format.h"
#include "report/printable.h"
#include "report/table.h"
#include "report/text_layout.h"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kStalls = 0.05;      // as for one process: less is no limit
constexpr double kAlike = 0.75;       // machines of one kind differ by less
constexpr double kWaits = 0.10;       // for other ranks: less is the exchange itself
constexpr double kAwaitedLess = 0.5;  // the others wait for a rank that waits half as long

[[noreturn]] void refuse_merge(const std::string& file, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, why, {.shard = file});
}

void check(const std::vector<RankReport>& ranks) {
  if (ranks.size() < 2)
    refuse_merge("", "one verdict over several ranks needs two reports or more");
  for (std::size_t i = 1; i < ranks.size(); ++i)
    if (ranks[i - 1].rank == ranks[i].rank)
      refuse_merge(ranks[i].file, "a second report of rank " + std::to_string(ranks[i].rank) +
                                      ", besides " + ranks[i - 1].file);
  const auto known = std::ranges::find_if(ranks, [](const auto& rank) { return rank.ranks > 0; });
  for (const RankReport& rank : ranks)
    if (rank.ranks > 0 && rank.ranks != known->ranks)
      refuse_merge(rank.file, "a report of another job, with " + std::to_string(rank.ranks) +
                                  " ranks; the job of " + known->file + " has " +
                                  std::to_string(known->ranks));
}

std::vector<int> missing_of(const std::vector<RankReport>& ranks) {
  int count = ranks.back().rank + 1;
  for (const RankReport& rank : ranks) count = std::max(count, rank.ranks);
  std::vector<int> missing;
  auto next = ranks.begin();
  for (int rank = 0; rank < count; ++rank) {
    if (next != ranks.end() && next->rank == rank)
      ++next;
    else
      missing.push_back(rank);
  }
  return missing;
}

/// Puts a rank with the cause that costs all ranks most in front.
void represent(MergedReport& merged) {
  std::map<std::pair<std::string, std::string>, double> costs;
  const auto cost = [&](std::size_t i) -> double& {
    return costs[{merged.ranks[i].cause, merged.ranks[i].stage}];
  };
  for (const std::size_t i : merged.worst) cost(i) += merged.ranks[i].stall_share;
  std::ranges::stable_sort(merged.worst, std::greater<>(), cost);
}

/// Finds the ranks that the others wait for in the exchange of gradients.
void judge_exchange(MergedReport& merged) {
  const std::vector<RankReport>& ranks = merged.ranks;
  double most = 0;
  for (const RankReport& rank : ranks) {
    if (rank.exposed_share < 0) return;
    most = std::max(most, rank.exposed_share);
  }
  if (most < kWaits) return;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i].exposed_share < kAwaitedLess * most) merged.worst.push_back(i);
  if (merged.worst.empty()) return;
  std::ranges::stable_sort(merged.worst, {}, [&](std::size_t i) { return ranks[i].exposed_share; });
  merged.limit = MergedReport::Limit::ranks;
  merged.slow_steps = true;
}

void judge(MergedReport& merged) {
  const std::vector<RankReport>& ranks = merged.ranks;
  std::vector<std::size_t> order(ranks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto stall = [&](std::size_t i) { return ranks[i].stall_share; };
  const auto pace = [&](std::size_t i) { return ranks[i].steps_per_s; };
  std::ranges::stable_sort(order, std::greater<>(), stall);
  const double most = stall(order.front());
  if (most < kStalls) return judge_exchange(merged);
  merged.limit = MergedReport::Limit::ranks;
  std::ranges::copy_if(order, std::back_inserter(merged.worst),
                       [&](std::size_t i) { return stall(i) >= kAlike * most; });
  if (merged.worst.size() < ranks.size()) return;
  std::ranges::stable_sort(merged.worst, {}, pace);
  const double slowest = pace(merged.worst.front());
  const auto is_slow = [&](std::size_t i) { return kAlike * pace(i) <= slowest; };
  const auto others = std::stable_partition(merged.worst.begin(), merged.worst.end(), is_slow);
  if (others != merged.worst.end()) {
    merged.worst.erase(others, merged.worst.end());
    return;
  }
  merged.limit = MergedReport::Limit::all;
  represent(merged);
}

std::string list_of(std::vector<int> ranks) {
  constexpr std::size_t kMost = 8;
  std::ranges::sort(ranks);
  std::string text = (ranks.size() == 1 ? "rank " : "ranks ") + std::to_string(ranks.front());
  for (std::size_t i = 1; i < std::min(kMost, ranks.size()); ++i)
    text += (i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
  if (ranks.size() > kMost) text += " and " + std::to_string(ranks.size() - kMost) + " more";
  return text;
}

std::string shown_stage(const RankReport& rank) {
  return fit(printable(rank.stage), 40);
}

std::string awaited(const RankReport& rank) {
  static const std::map<std::string, std::string> kAwaited{
      {"budget", "room in its memory budget"},
      {"cpu", "a CPU"},
      {"copy", "copies to its devices"},
      {"slots", "slots on its devices"},
      {"hand-over", "elements to be handed over"},
      {"workers", "its input workers"},
      {"network", "the network to its input workers"}};
  const std::string stage = shown_stage(rank);
  const auto known = kAwaited.find(rank.cause);
  if (known == kAwaited.end()) return stage.empty() ? "its input" : stage;
  return known->second + (stage.empty() ? "" : " (" + stage + ")");
}

/// Returns text such as "waited 94% of the time for tar[0], mostly for its shard b.tar".
std::string waited(const RankReport& rank) {
  return "waited " + human_share(rank.stall_share) + " of the time for " + awaited(rank) +
         (rank.shard.empty() ? "" : ", mostly for its shard " + printable(rank.shard));
}

/// Returns the least and the largest of a figure of the ranks, except for the worst ones.
template <typename Figure>
std::pair<double, double> range_of_others(const MergedReport& merged, Figure figure) {
  std::pair<double, double> range{HUGE_VAL, 0};
  for (std::size_t i = 0; i < merged.ranks.size(); ++i) {
    if (std::ranges::find(merged.worst, i) != merged.worst.end()) continue;
    range.first = std::min(range.first, merged.ranks[i].*figure);
    range.second = std::max(range.second, merged.ranks[i].*figure);
  }
  return range;
}

std::string ranks_text(const MergedReport& merged) {
  std::vector<int> numbers;
  for (const std::size_t i : merged.worst) numbers.push_back(merged.ranks[i].rank);
  const RankReport& worst = merged.ranks[merged.worst.front()];
  const bool one = numbers.size() == 1;
  std::string text = list_of(numbers);
  text.front() = 'R';
  if (one && !worst.host.empty()) text += " on " + printable(worst.host);
  text += one ? " holds up the others: it "
              : " hold up the others: rank " + std::to_string(worst.rank) + " ";
  if (merged.slow_steps) {
    const std::string waited = human_share(worst.exposed_share) + " of the time";
    const auto others = range_of_others(merged, &RankReport::exposed_share);
    return text + "waited " + waited + " for their gradients, and they waited at least " +
           human_share(others.first) +
           " for those of others: its steps take longer, as its devices are slower, shared or "
           "stopped at times.";
  }
  const double stall = range_of_others(merged, &RankReport::stall_share).second;
  if (stall < kAlike * worst.stall_share)
    return text + waited(worst) + "; the others waited at most " + human_share(stall) + ".";
  return text + "makes " + human_count(worst.steps_per_s) + " steps/s and " + waited(worst) +
         "; the others make at least " +
         human_count(range_of_others(merged, &RankReport::steps_per_s).first) + " steps/s.";
}

std::string all_text(const MergedReport& merged) {
  const RankReport& first = merged.ranks[merged.worst.front()];
  double least = 1;
  double most = 0;
  std::size_t alike = 0;
  for (const RankReport& rank : merged.ranks) {
    least = std::min(least, rank.stall_share);
    most = std::max(most, rank.stall_share);
    if (rank.cause == first.cause && rank.stage == first.stage) ++alike;
  }
  const std::string count = std::to_string(merged.ranks.size());
  std::string text = "All " + count + " ranks are limited alike: each waited " + human_share(least);
  if (human_share(least) != human_share(most)) text += " to " + human_share(most);
  text += " of the time, ";
  if (alike < merged.ranks.size()) text += std::to_string(alike) + " of " + count + " ";
  return text + "for " + awaited(first) + ".";
}

std::string verdict_text(const MergedReport& merged) {
  if (merged.limit == MergedReport::Limit::ranks) return ranks_text(merged);
  if (merged.limit == MergedReport::Limit::all) return all_text(merged);
  return "The devices limit all " + std::to_string(merged.ranks.size()) +
         " ranks, and not their input: no rank waited more than " +
         human_share(range_of_others(merged, &RankReport::stall_share).second) + " of the time.";
}

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}

}  // namespace

MergedReport merge(std::vector<RankReport> ranks) {
  std::ranges::stable_sort(ranks, {}, &RankReport::rank);
  check(ranks);
  MergedReport merged{.ranks = std::move(ranks)};
  merged.missing = missing_of(merged.ranks);
  judge(merged);
  merged.text = verdict_text(merged);
  return merged;
}

std::string missing_text(const MergedReport& report) {
  if (report.missing.empty()) return "";
  const bool one = report.missing.size() == 1;
  return std::string(one ? "the report of " : "the reports of ") + list_of(report.missing) +
         (one ? " is missing" : " are missing");
}

std::string merged_text(const MergedReport& report, bool colour, int width) {
  const auto columns = static_cast<std::size_t>(std::max(40, width));
  std::string text = paint(Colour::bold, report.text, colour) + "\n";
  if (report.limit == MergedReport::Limit::ranks) {
    const RankReport& worst = report.ranks[report.worst.front()];
    text +=
        wrap("Rank " + std::to_string(worst.rank) + " itself: " + printable(worst.text), columns) +
        "\n";
  }
  Table table({{"rank", true},
               {"host"},
               {"elements/s", true},
               {"stalled", true},
               {"waited", true},
               {"limit"},
               {"stage"},
               {"shard"}});
  for (const RankReport& rank : report.ranks)
    table.add({std::to_string(rank.rank), or_dash(printable(rank.host)),
               human_count(rank.elements_per_s), human_share(rank.stall_share),
               rank.exposed_share < 0 ? "-" : human_share(rank.exposed_share),
               or_dash(printable(rank.cause.substr(0, rank.cause.find(' ')))),
               or_dash(shown_stage(rank)),
               or_dash(printable(rank.shard.substr(rank.shard.rfind('/') + 1)))});
  text += "\n";
  for (const std::string& line : table.lines(columns, colour)) text += line + "\n";
  return text;
}

std::string merged_json(const MergedReport& report) {
  constexpr std::array kLimits{"ranks", "all", "devices"};
  const auto known = [](const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
  };
  Json verdict{{"text", report.text},
               {"limit", kLimits.at(static_cast<std::size_t>(report.limit))},
               {"ranks", Json::array()}};
  for (const std::size_t i : report.worst) verdict["ranks"].push_back(report.ranks[i].rank);
  const RankReport none;
  const RankReport& worst = report.worst.empty() ? none : report.ranks[report.worst.front()];
  verdict["cause"] = known(worst.cause);
  verdict["stage"] = known(worst.stage);
  verdict["shard"] = known(worst.shard);
  verdict["remedy"] = known(worst.remedy);
  Json json{{"penstock", version()},
            {"verdict", std::move(verdict)},
            {"missing", report.missing},
            {"ranks", Json::array()}};
  for (const RankReport& rank : report.ranks)
    json["ranks"].push_back(
        {{"rank", rank.rank},
         {"host", known(rank.host)},
         {"file", rank.file},
         {"elements_per_second", rank.elements_per_s},
         {"steps_per_second", rank.steps_per_s},
         {"stall_share", rank.stall_share},
         {"exposed_share", rank.exposed_share < 0 ? Json(nullptr) : Json(rank.exposed_share)},
         {"cause", known(rank.cause)},
         {"stage", known(rank.stage)},
         {"shard", known(rank.shard)},
         {"text", rank.text}});
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace penstock
