// Runs whose groups are made by input workers, on simulated time: each verdict names what was made
// too slow, and what it promises is what doing something about it brings.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/prizes.h"
#include "report/verdict.h"
#include "tests/tools/made_reports.h"

namespace penstock::tool {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int kGroups = 600;
constexpr int kInGroup = 8;

struct Situation {
  int workers = 1;
  int threads = 2;       ///< of each
  double work_s = 0.02;  ///< of a group
  double bytes = 1e6;    ///< of its answer
  double link = 1e9;     ///< bytes a second, which all workers share
  double latency_s = 1e-4;
  double step_s = 0.002;  ///< of the consumer, for a group
  int ahead = 200;        ///< groups that the run may have beyond what was consumed
};

/// What happens when, one after the other.
class Simulation {
 public:
  explicit Simulation(const Situation& made)
      : made_(made), workers_(static_cast<std::size_t>(made.workers)), ready_(kGroups + 1) {
    for (WorkerStats& worker : workers_) {
      worker.address = "host:" + std::to_string(7070 + (&worker - workers_.data()));
      worker.connected = true;
      worker.threads = made.threads;
      worker.groups_at_once = static_cast<std::uint64_t>(2 * made.threads + 2);
    }
    asked_.resize(workers_.size());
    working_.resize(workers_.size());
    queued_.resize(workers_.size());
  }

  Report report() {
    hand_out();
    while (!events_.empty()) {
      const auto next = events_.begin();
      now_ = next->first;
      const std::function<void()> act = std::move(next->second);
      events_.erase(next);
      act();
    }
    double busy = 0;
    for (WorkerStats& worker : workers_) {
      busy += worker.busy_s;
      if (worker.groups > 0) worker.round_trip_s /= static_cast<double>(worker.groups);
    }
    Report report =
        run({stage("images[0]", 0.1 * busy), stage("map[1] decode_image", 0.9 * busy)}, 0.1 * now_);
    report.elements = std::uint64_t{kGroups} * kInGroup;
    report.batches = kGroups;
    report.wall_s = now_;
    report.wait_s = now_ - kGroups * made_.step_s;
    report.step_s = kGroups * made_.step_s;
    report.first_batch_s = first_s_;
    report.stats.workers = workers_;
    report.stats.groups_of_workers = kGroups;
    return report;
  }

 private:
  void at(double time, std::function<void()> act) { events_.emplace(time, std::move(act)); }

  void hand_out() {
    while (next_ < kGroups && next_ < consumed_ + made_.ahead) {
      const auto least = std::ranges::min_element(asked_);
      const auto w = static_cast<std::size_t>(least - asked_.begin());
      if (*least >= static_cast<int>(workers_[w].groups_at_once)) return;
      ++*least;
      at(now_ + made_.latency_s, [this, w, group = next_, asked = now_] {
        queued_[w].push_back({group, asked, now_});
        work(w);
      });
      ++next_;
    }
  }

  struct Asked {
    int group;
    double asked, came;
  };

  void work(std::size_t w) {
    if (queued_[w].empty() || working_[w] == made_.threads) return;
    const Asked one = queued_[w].front();
    queued_[w].erase(queued_[w].begin());
    ++working_[w];
    at(now_ + made_.work_s, [this, w, one] {
      --working_[w];
      workers_[w].busy_s += made_.work_s;
      link_free_ = std::max(link_free_, now_) + made_.bytes / made_.link;
      at(link_free_ + made_.latency_s,
         [this, w, one, worked = now_ - one.came] { received(w, one, worked); });
      work(w);
    });
  }

  void received(std::size_t w, const Asked& one, double worked) {
    --asked_[w];
    const double way = now_ - one.asked - worked;
    WorkerStats& worker = workers_[w];
    ++worker.groups;
    worker.elements += kInGroup;
    worker.received_bytes += static_cast<std::uint64_t>(made_.bytes);
    worker.round_trip_s += way;
    worker.least_round_trip_s = worker.groups == 1 ? way : std::min(worker.least_round_trip_s, way);
    ready_[static_cast<std::size_t>(one.group)] = true;
    hand_out();
    take();
  }

  void take() {
    if (stepping_ || !ready_[static_cast<std::size_t>(consumed_)]) return;
    if (consumed_ == 0) first_s_ = now_;
    stepping_ = true;
    at(now_ + made_.step_s, [this] {
      stepping_ = false;
      ++consumed_;
      hand_out();
      take();
    });
  }

  const Situation made_;
  double now_ = 0, link_free_ = 0, first_s_ = 0;
  std::multimap<double, std::function<void()>> events_;
  std::vector<WorkerStats> workers_;
  std::vector<int> asked_, working_;
  std::vector<std::vector<Asked>> queued_;
  std::vector<bool> ready_;
  int next_ = 0, consumed_ = 0;
  bool stepping_ = false;
};

Report run_of(const Situation& made) {
  return Simulation(made).report();
}

struct Case {
  const char* name;
  Situation made;
  const char* cause;
  std::vector<std::string> says;
  std::function<void(Situation&)>
      remedy;  ///< makes what limits it much faster; null: there is none
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"one_slow_worker",
       {},
       "workers",
       {"The input worker limits the run: its 2 threads are", "6 workers instead of 1 would end"},
       [](Situation& made) { made.work_s /= 100; }},
      {"several_slow_workers",
       {.workers = 2, .threads = 4, .work_s = 0.04},
       "workers",
       {"Input workers limit the run: the 2 of them have 8 threads, which are", "workers instead"},
       [](Situation& made) { made.work_s /= 100; }},
      {"a_consumer_that_takes_all",
       {.step_s = 0},
       "workers",
       {"each more worker would add up to 800 elements/s"},
       nullptr},
      {"a_slow_link",
       {.workers = 2, .threads = 4, .link = 60e6},
       "network",
       {"The network to input workers limits the run: 57.1 MiB/s arrive",
        "fewer bytes (u8 images that are finished on the device, --wire lz4)",
        "an answer of 976.6 KiB"},
       [](Situation& made) { made.link *= 1000; }},
      {"a_long_way",
       {.bytes = 1e5, .latency_s = 0.05},
       "network",
       {"The latency to input workers limits the run", "100 ms", "the 6 groups", "nearer",
        "11 workers instead of 1"},
       [](Situation& made) { made.latency_s /= 1000; }},
      {"a_slow_consumer", {.threads = 4, .step_s = 0.02}, "step", {"The consumer limits"}, nullptr},
  };
  return all;
}

class OfWorkers : public testing::TestWithParam<Case> {};

TEST_P(OfWorkers, NamesWhatWasMadeTooSlow) {
  const Case& made = GetParam();
  const Report report = run_of(made.made);
  const Verdict said = verdict(report);
  EXPECT_EQ(said.cause, made.cause) << said.text;
  for (const std::string& text : made.says) EXPECT_THAT(said.text, HasSubstr(text));
  if (!made.remedy) return;
  Situation then = made.made;
  made.remedy(then);
  const double rate = run_of(then).elements_per_second();
  EXPECT_NEAR(said.rate_then, rate, 0.25 * rate) << said.text;
  EXPECT_GT(rate, 1.5 * report.elements_per_second());
}

INSTANTIATE_TEST_SUITE_P(Verdicts, OfWorkers, testing::ValuesIn(cases()),
                         [](const auto& made) { return std::string(made.param.name); });

TEST(WorkersWanted, EndTheWait) {
  for (const Case& made : cases()) {
    if (made.made.step_s == 0 || std::string(made.cause) == "step") continue;
    Situation then = made.made;
    then.workers = static_cast<int>(workers_wanted(run_of(made.made)));
    const Report report = run_of(then);
    // Over a link that is full more workers bring nothing, and the verdict does not say so.
    if (made.made.link < 1e9) {
      EXPECT_EQ(verdict(report).cause, "network");
      EXPECT_THAT(verdict(report).text, Not(HasSubstr("would end the wait")));
    } else {
      EXPECT_LT(report.stall_share(), 0.1) << made.name << ", " << then.workers << " workers";
    }
  }
}

TEST(OfWorkers, AreNotBlamedForAnInputThatHandsOutLittle) {
  const Report report = run_of({.workers = 2, .threads = 4, .ahead = 2});
  EXPECT_NE(verdict(report).cause, "workers") << verdict(report).text;
  EXPECT_NE(verdict(report).cause, "network") << verdict(report).text;
  EXPECT_THAT(verdict(report).text,
              testing::AllOf(HasSubstr("but are only"), HasSubstr("more batches ahead")));
}

TEST(OfWorkers, NetworkOfABusyProcess) {
  Report report = run_of({.workers = 2, .threads = 4, .link = 20e6});
  report.cpu_s = 0.95 * report.wall_s * report.cpus;
  EXPECT_NE(verdict(report).cause, "network") << verdict(report).text;
}

TEST(OfWorkers, WorkOfOtherThreads) {
  Report report = run_of({.workers = 2, .threads = 4, .ahead = 2});
  for (const StageStats& stage : local_part(report).stats.stages) EXPECT_LT(stage.busy_s, 1e-9);
  for (const Prize& prize : prizes(report)) EXPECT_NE(prize.change, "one more core");
  EXPECT_EQ(made_here(report.stats), 0);
  report.stats.groups_made_here = report.stats.groups_of_workers;
  EXPECT_EQ(made_here(report.stats), 0.5);
}

TEST(OfWorkers, MissingWorkers) {
  Report report = run_of({.workers = 2});
  EXPECT_EQ(missing_workers(report), "");
  report.stats.workers[1].connected = false;
  report.stats.workers[1].problem = "not_found: it was not reached";
  EXPECT_THAT(verdict(report).text,
              HasSubstr("1 of 2 input workers is not available: host:7071: not_found: it was not"));
}

TEST(OfWorkers, VerdictOfTowers) {
  Report towers = fed("stage map[1] mine", 4);
  const Report slow = run_of({});
  towers.stats.workers = slow.stats.workers;
  towers.stats.workers[0].busy_s = 19;
  towers.stats.groups_of_workers = 1000;
  EXPECT_EQ(verdict(towers).cause, "workers") << verdict(towers).text;
  EXPECT_EQ(verdict(fed("copy", 4)).cause, "copy");
}

}  // namespace
}  // namespace penstock::tool
