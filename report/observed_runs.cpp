#include "report/observed_runs.h"

#include <algorithm>

#include <unistd.h>
#include <nlohmann/json.hpp>

#include <penstock/version.h>

#include "report/observed.h"
#include "report/rank.h"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace

NamedRun RunEntry::named(Observation seen, Ending ending) const {
  const bool feed = std::holds_alternative<FeedStats>(seen);
  NamedRun run{number_, lane_, feed,
               std::visit([](auto& stats) { return observed(std::move(stats)); }, seen)};
  run.report.ending = ending;
  return run;
}

std::vector<NamedRun> RunEntry::look() {
  MutexLock lock(mutex_);
  std::vector<NamedRun> now;
  if (look_) now.push_back(named(look_(), Ending::running));
  return now;
}

NamedRun RunEntry::end() {
  MutexLock lock(mutex_);
  const std::function<Observation()> look = std::exchange(look_, nullptr);
  return named(look(), Ending::finished);
}

ObservedRuns::EntryPtr ObservedRuns::add(std::function<Observation()> look) {
  MutexLock lock(mutex_);
  std::uint64_t lane = 0;
  const std::vector<EntryPtr>& live = live_;
  const auto has_lane = [&lane](const EntryPtr& run) { return run->lane() == lane; };
  while (std::ranges::any_of(live, has_lane)) ++lane;
  live_.push_back(std::make_shared<RunEntry>(begun_, lane, std::move(look)));
  ++begun_;
  return live_.back();
}

// The last look is taken without the lock, because it takes a while and may throw.
void ObservedRuns::remove(const EntryPtr& entry) {
  std::optional<NamedRun> last;
  try {
    last = entry->end();
  } catch (...) {
    last.reset();  // the run is forgotten
  }
  MutexLock lock(mutex_);
  std::erase(live_, entry);
  if (!last) return;
  if (ended_.size() == kEndedKept) ended_.pop_front();
  ended_.push_back(*std::move(last));
}

std::vector<NamedRun> ObservedRuns::live() const {
  std::vector<EntryPtr> entries;
  {
    MutexLock lock(mutex_);
    entries = live_;
  }
  std::vector<NamedRun> runs;
  for (const EntryPtr& entry : entries) {
    for (NamedRun& run : entry->look()) runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<NamedRun> ObservedRuns::all() const {
  std::vector<NamedRun> runs = live();
  MutexLock lock(mutex_);
  // A run that ended in between is listed only once.
  const auto ended_since = [this](const NamedRun& run) {
    mutex_.assert_held();
    return std::ranges::any_of(ended_,
                               [&run](const NamedRun& one) { return one.number == run.number; });
  };
  std::erase_if(runs, ended_since);
  runs.insert(runs.begin(), ended_.begin(), ended_.end());
  return runs;
}

std::string runs_text(const std::vector<NamedRun>& runs) {
  constexpr int kColumns = 100;
  std::string text;
  for (const NamedRun& run : runs) {
    if (runs.size() > 1) {
      text += (text.empty() ? "run " : "\nrun ") + std::to_string(run.number) +
              (run.feed ? ", a feed, " : ", an iterator, ") +
              std::string(name_of(run.report.ending)) + "\n\n";
    }
    text += report_text(run.report, false, kColumns);
  }
  return text.empty() ? "No run has begun.\n" : text;
}

std::string runs_json(const std::vector<NamedRun>& runs) {
  const int ranks = ranks_of_job();
  Json json{{"penstock", version()},
            {"host", host_name()},
            {"process", static_cast<std::int64_t>(::getpid())},
            {"rank", rank_of_process()},
            {"ranks", ranks > 0 ? Json(ranks) : Json(nullptr)},
            {"exposed_s", exposed_seconds() >= 0 ? Json(exposed_seconds()) : Json(nullptr)},
            {"runs", Json::array()}};
  for (const NamedRun& run : runs) {
    Json one{{"run", run.number}, {"kind", run.feed ? "feed" : "iterator"}};
    one.update(Json::parse(report_json(run.report)));
    json["runs"].push_back(std::move(one));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace penstock
