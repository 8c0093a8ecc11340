// Workers, parameter servers and the chief of a job are killed and frozen at random moments. A lost
// worker ends nothing and continues where it was; a lost server or chief ends all others, who say
// whom they lost, and everything resumes from the last checkpoint. Each push counts once.
// PENSTOCK_KILLS says how many (20), PENSTOCK_KILLS_SEED makes another series.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <signal.h>

#include <penstock/rng.h>

#include "tests/cluster/child.h"
#include "tests/cluster/free_address.h"
#include "tests/cluster/served_log.h"
#include "tests/support/files.h"
#include "tests/support/places.h"
#include "tests/support/time_limit.h"

namespace penstock::cluster {
namespace {

using namespace std::chrono_literals;
using penstock::test::built;
using penstock::test::free_address;
using penstock::test::TempFolder;
using penstock::test::TimeLimit;
using test::Child;
using test::PushCount;
using test::ServedLog;
using Clock = std::chrono::steady_clock;

constexpr int kTrainers = 3;
constexpr int kServers = 2;
constexpr int kElements = 203;
constexpr int kEpochs = 3;
// Of each replica: 203 elements in batches of 4 for 3 replicas, the last ones filled up or empty.
constexpr std::uint64_t kBatches = 17 * kEpochs;
constexpr int kPeerTimeoutMs = 2000;
/// What the others may take: the timeout, what they do at the end, a busy machine.
constexpr auto kEndWithin = 40s;

int number_of(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::atoi(text) : otherwise;
}

struct Process {
  std::string role;  // "chief", "worker", "ps"
  int index = 0;
  std::unique_ptr<Child> child{};
  bool replaced = false;  // another one was killed before
  bool judged = false;    // what became of it, when everything was over
  std::string name() const { return role == "chief" ? role : role + " " + std::to_string(index); }
};

struct Figures {
  std::map<std::string, int> troubles;
  int jobs = 0, survivors = 0, compared = 0;
  PushCount pushes;
  int other_ids = 0, other_digests = 0;
};
Figures figures;

/// A job of a chief, two workers and two servers.
class Job {
 public:
  Job(Rng& random, std::string strategy) : random_(random), strategy_(std::move(strategy)) {
    for (int server = 0; server < kServers; ++server) {
      const std::string address = free_address();
      addresses_ += (server > 0 ? "," : "") + address;
    }
  }

  void start_all() {
    processes_.clear();
    for (int server = 0; server < kServers; ++server) processes_.push_back({"ps", server});
    processes_.push_back({"chief", 0});
    for (int worker = 0; worker + 1 < kTrainers; ++worker) processes_.push_back({"worker", worker});
    for (Process& process : processes_) start(process);
  }

  /// False: the job came to its end before.
  bool disturb(bool freeze) {
    std::this_thread::sleep_for(std::chrono::milliseconds(random_.below(1200)));
    Process& victim = processes_[random_.below(processes_.size())];
    if (victim.child->wait(Clock::now()) >= 0) return false;
    victim.child->signal(freeze ? SIGSTOP : SIGKILL);
    const std::string what = (freeze ? "SIGSTOP of " : "kill -9 of ") + victim.name();
    const bool may_continue =
        victim.role == "worker" ? replace(victim, freeze, what) : end_all(victim, freeze, what);
    std::printf("%s, %s: %s\n", strategy_.c_str(), what.c_str(),
                may_continue ? "the job continues" : "it had come to its end");
    std::fflush(stdout);
    if (may_continue)
      ++figures.troubles[(freeze ? "SIGSTOP of a " : "kill -9 of a ") + victim.role];
    return may_continue;
  }

  void come_to_the_end() {
    for (Process& process : processes_) {
      const int code = process.child->wait(Clock::now() + 60s);
      if (process.judged) continue;
      if (code == 75 && process.replaced) continue;  // it came when everything was over
      ASSERT_EQ(code, 0) << process.name() << ": " << process.child->said();
    }
  }

  ServedLog log() const { return test::read_served_log(folder_ / "log"); }

 private:
  void start(Process& process) {
    process.child = std::make_unique<Child>(
        std::vector<std::string>{built("cluster_served_victim"), process.role,
                                 std::to_string(process.index), std::to_string(kTrainers),
                                 addresses_, strategy_, folder_ / "kept", folder_ / "log",
                                 std::to_string(kPeerTimeoutMs)},
        std::vector<std::string>{"PENSTOCK_PACE=8000"},
        folder_ / (process.role + std::to_string(process.index) + "." + std::to_string(++starts_)));
  }

  /// Another one takes the worker's place, at once or once it is known to be lost. False: it had
  /// ended before it was killed.
  bool replace(Process& worker, bool frozen, const std::string& what) {
    std::unique_ptr<Child> zombie;
    if (frozen) {
      zombie = std::move(worker.child);
    } else {
      const int code = worker.child->wait(Clock::now() + 10s);
      if (code == 0) return false;
      EXPECT_EQ(code, 128 + SIGKILL) << what;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random_.below(2) * 3000));
    const bool over = processes_[kServers].child->wait(Clock::now()) == 0;
    start(worker);
    worker.replaced = true;
    if (zombie) {
      zombie->signal(SIGCONT);
      const int code = zombie->wait(Clock::now() + kEndWithin);
      EXPECT_TRUE(code == 75 || code == 0) << what << ": " << code << ": " << zombie->said();
    }
    return !over;
  }

  /// Everybody else ends and names the victim; then all start again.
  bool end_all(Process& victim, bool frozen, const std::string& what) {
    const auto until = Clock::now() + kEndWithin;
    bool ended_well = false;
    for (Process& process : processes_) {
      if (&process == &victim) continue;
      const int code = process.child->wait(until);
      if (code == 0) {
        ended_well = ended_well || process.role == "chief";
        continue;
      }
      EXPECT_EQ(code, 75) << what << ", " << process.name() << ": " << process.child->said();
      // Of two that were one worker, one frozen before, a server believes the one that came last.
      const bool displaced = process.replaced && process.child->said().find(
                                                     "another one has taken "
                                                     "the place of") != std::string::npos;
      // Servers go once the chief has come to the end: who lost one then may miss another first.
      const bool a_server_is_gone =
          !log().end.empty() && process.child->said().find("ps ") != std::string::npos;
      EXPECT_TRUE(displaced || a_server_is_gone ||
                  names(process.child->said(), victim.name(), process.role == "chief"))
          << what << ", " << process.name() << ": " << process.child->said();
      ++figures.survivors;
    }
    if (frozen) {
      victim.child->signal(SIGCONT);
      const int code = victim.child->wait(Clock::now() + kEndWithin);
      EXPECT_TRUE(code == 75 || code == 0) << what << ": " << code << ": " << victim.child->said();
      ended_well = ended_well || (victim.role == "chief" && code == 0);
    }
    if (!log().end.empty()) {
      for (Process& process : processes_) process.judged = true;
      return false;
    }
    EXPECT_FALSE(ended_well) << what << ": the chief ended well and did not say so";
    start_all();
    return true;
  }

  /// Before a run has begun only the chief asks for all servers.
  static bool names(const std::string& said, const std::string& victim, bool chief) {
    const auto has = [&](const std::string& text) { return said.find(text) != std::string::npos; };
    return has(victim) || (!chief && (has("no run began") || has("the chief did not come") ||
                                      has("the chief ended before the run did")));
  }

  Rng& random_;
  const std::string strategy_;
  const TempFolder folder_;
  std::string addresses_;
  std::vector<Process> processes_;
  int starts_ = 0;
};

void compare(const ServedLog& log, const std::string& end) {
  EXPECT_FALSE(log.end.empty());
  if (!end.empty()) {
    EXPECT_EQ(log.end, end) << "steps and digest";
  }
  figures.other_digests += !end.empty() && log.end != end;
  figures.compared += !end.empty();
  const PushCount count = test::count_pushes(log, kTrainers, kBatches, kElements, kEpochs);
  EXPECT_EQ(count.twice, 0);
  EXPECT_EQ(count.left_out, 0);
  EXPECT_EQ(count.lost, 0);
  EXPECT_EQ(count.missing, 0);
  EXPECT_EQ(count.repeated, 0);
  EXPECT_EQ(log.other_ids, 0);
  figures.pushes.twice += count.twice;
  figures.pushes.left_out += count.left_out;
  figures.pushes.lost += count.lost;
  figures.pushes.missing += count.missing;
  figures.pushes.repeated += count.repeated;
  figures.other_ids += log.other_ids;
  ++figures.jobs;
}

void print() {
  int troubles = 0;
  for (const auto& [name, count] : figures.troubles) troubles += count;
  std::printf(
      "figure: jobs with parameter servers %d, disturbed %d times, survivors that ended %d\n",
      figures.jobs, troubles, figures.survivors);
  for (const auto& [name, count] : figures.troubles)
    std::printf("figure: %s: %d\n", name.c_str(), count);
  std::printf(
      "figure: pushes that counted twice %d, skipped %d, acknowledged and lost %d; elements "
      "missing %d, repeated %d, in another batch %d; of %d final digests of sync_replicas, no "
      "process of which was taken for lost, differ %d\n",
      figures.pushes.twice, figures.pushes.left_out, figures.pushes.lost, figures.pushes.missing,
      figures.pushes.repeated, figures.other_ids, figures.compared, figures.other_digests);
}

TEST(ServedKills, PushesAcrossKills) {
  const int kills = number_of("PENSTOCK_KILLS", 20);
  const TimeLimit limit(static_cast<unsigned>(200 + kills * 20));
  Rng random(static_cast<std::uint64_t>(number_of("PENSTOCK_KILLS_SEED", 1)), 0, 1);
  std::string end;  // of sync_replicas with all replicas
  {
    Job quiet(random, "sync_replicas");
    quiet.start_all();
    quiet.come_to_the_end();
    if (HasFailure()) return;
    end = quiet.log().end;
    compare(quiet.log(), end);
  }
  int done = 0;
  for (int round = 0; done < kills; ++round) {
    const bool synchronous = round % 2 == 1;
    Job job(random, synchronous ? "sync_replicas" : "async");
    job.start_all();
    bool more = true;
    for (int i = 0; i < 5 && more && done < kills && !HasFailure(); ++i) {
      more = job.disturb(random.below(4) == 0);
      done += more ? 1 : 0;
    }
    if (HasFailure()) return;
    job.come_to_the_end();
    if (HasFailure()) return;
    // Whose token went to others left updates to them.
    compare(job.log(), synchronous && job.log().losses == 0 ? end : "");
    if (HasFailure()) return;
  }
  print();
}

}  // namespace
}  // namespace penstock::cluster
