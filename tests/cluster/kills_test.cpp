// Ranks and etcd are killed, frozen and cut off at random moments and at points compiled in, ranks
// started bare. Whoever is left ends in time and names whom it lost; after the last start the
// variables are those of a run that nobody disturbed, and each element was trained once an epoch.
// PENSTOCK_KILLS says how many (20), PENSTOCK_KILLS_S for how many seconds at most (no more than it
// takes); PENSTOCK_KILLS_SEED makes another series.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <signal.h>

#include <penstock/rng.h>

#include "tests/cluster/certificates.h"
#include "tests/cluster/child.h"
#include "tests/cluster/etcd_server.h"
#include "tests/cluster/free_address.h"
#include "tests/cluster/hosts.h"
#include "tests/cluster/kills_log.h"
#include "tests/support/files.h"
#include "tests/support/places.h"
#include "tests/support/time_limit.h"

namespace penstock::cluster {
namespace {

using namespace std::chrono_literals;
using penstock::test::built;
using penstock::test::EtcdServer;
using penstock::test::free_address;
using penstock::test::Hosts;
using penstock::test::TempFolder;
using penstock::test::TimeLimit;
using test::Child;
using test::Count;
using test::KillsLog;
using Clock = std::chrono::steady_clock;

constexpr int kElements = 203;
constexpr int kEpochs = 3;
constexpr int kPeerTimeoutMs = 2000;
/// What survivors may take: signs of life, a lease's end, Gloo's connections, a busy machine.
constexpr auto kEndWithin = 40s;

int number_of(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::atoi(text) : otherwise;
}

enum class Trouble { kill, kill_at_point, freeze, kill_etcd, freeze_etcd, cut, cut_etcd };
const char* name_of(Trouble trouble) {
  static constexpr const char* kNames[] = {"kill -9 of a rank, at a random moment",
                                           "kill -9 of a rank, at a kill point",
                                           "SIGSTOP of a rank",
                                           "kill -9 of etcd",
                                           "SIGSTOP of etcd",
                                           "a rank's link taken down",
                                           "etcd's link taken down"};
  return kNames[static_cast<int>(trouble)];
}

const std::vector<std::string> kPoints{
    "joined", "sum",   "summed", "gather",     "gathered",    "between towers", "step",
    "create", "write", "sync",   "rename",     "sync folder", "snapshot",       "handed over",
    "keep",   "step",  "sum",    "group done", "batch made"};

struct Figures {
  std::map<std::string, int> troubles;
  std::map<std::string, int> points;
  int jobs = 0;
  int starts = 0;
  int survivors = 0;
  Count elements;
  int other_digests = 0;
  std::vector<double> ended_within_s;
};
Figures figures;

/// A job that is tormented until it comes to its end.
class Job {
 public:
  Job(Rng& random, bool etcd, bool hosts) : random_(random), etcd_(etcd) {
    if (hosts) {
      hosts_ = std::make_unique<Hosts>(kMostRanks + 1);
      std::string names = "IP:127.0.0.1";
      for (int host = 0; host <= kMostRanks; ++host) names += ",IP:" + Hosts::address(host);
      if (!hosts_->made() || !test::make_certificates(folder_.path(), names)) hosts_.reset();
    }
    if (etcd_) server_ = make_etcd();
  }
  bool has_hosts() const noexcept { return hosts_ != nullptr; }

  /// False: it has come to its end.
  bool start_and_disturb(Trouble trouble) {
    world_ = random_.below(4) == 0 ? 4 : 2;
    const int victim = static_cast<int>(random_.below(static_cast<std::uint64_t>(world_)));
    std::string point;
    if (trouble == Trouble::kill_at_point)
      point = kPoints[random_.below(kPoints.size())] + ":" + std::to_string(1 + random_.below(12));
    start(victim, point);
    if (trouble != Trouble::kill_at_point) {
      std::this_thread::sleep_for(std::chrono::milliseconds(random_.below(1500)));
      disturb(trouble, victim);
    }
    const Clock::time_point since = Clock::now();
    const bool ended = collect(trouble, victim, point);
    if (testing::Test::HasFailure()) return false;
    const double took = std::chrono::duration<double>(Clock::now() - since).count();
    std::printf("%s of %d%s%s: %s after %.1f s\n", name_of(trouble), world_, etcd_ ? ", etcd" : "",
                hosts_ ? ", on hosts" : "", ended ? "came to its end" : "ended", took);
    std::fflush(stdout);
    if (!ended) {
      figures.ended_within_s.push_back(took);
      ++figures.troubles[name_of(trouble)];
    }
    repair(trouble, victim);
    return !ended;
  }

  void come_to_the_end() {
    world_ = 2;
    start(-1, "");
    for (const auto& rank : ranks_)
      ASSERT_EQ(rank->wait(Clock::now() + kEndWithin), 0) << rank->said();
  }

  void compare(const KillsLog& undisturbed) const {
    const KillsLog log = test::read_kills_log(folder_ / "log");
    EXPECT_EQ(log.end, undisturbed.end) << "steps and digest";
    figures.other_digests += log.end != undisturbed.end;
    const Count count = test::count_elements(log, undisturbed, kElements, kEpochs);
    EXPECT_EQ(count.missing, 0);
    EXPECT_EQ(count.repeated, 0);
    EXPECT_EQ(count.elsewhere, 0);
    figures.elements.missing += count.missing;
    figures.elements.repeated += count.repeated;
    figures.elements.elsewhere += count.elsewhere;
    for (const auto& [point, times] : log.kill_points) figures.points[point] += times;
    ++figures.jobs;
  }

 private:
  static constexpr int kMostRanks = 4;

  std::unique_ptr<EtcdServer> make_etcd() const {
    if (!hosts_) return std::make_unique<EtcdServer>();
    return std::make_unique<EtcdServer>(
        std::vector<std::string>{"--cert-file", folder_ / "rank.pem", "--key-file",
                                 folder_ / "rank.key", "--client-cert-auth", "--trusted-ca-file",
                                 folder_ / "ca.pem"},
        hosts_->on(kMostRanks), Hosts::address(kMostRanks));
  }

  void start(int victim, const std::string& point) {
    ranks_.clear();
    ++run_;
    ++figures.starts;
    checkpoint_ = newest_checkpoint();
    const std::string place = etcd_    ? server_->url("job")
                              : hosts_ ? "grpc://" + Hosts::address(0) + ":4567"
                                       : "grpc://" + free_address();
    for (int rank = 0; rank < world_; ++rank) {
      std::vector<std::string> words;
      if (hosts_) words = hosts_->on(rank);
      for (const std::string& word : {built("cluster_victim"), place, std::to_string(rank),
                                      std::to_string(world_), folder_ / "kept", folder_ / "log",
                                      std::to_string(run_), std::to_string(kPeerTimeoutMs)})
        words.push_back(word);
      if (hosts_) words.insert(words.end(), {"eth0", folder_.path()});
      std::vector<std::string> variables{"PENSTOCK_PACE=5000"};
      if (rank == victim && !point.empty()) variables.push_back("PENSTOCK_KILL_AT=" + point);
      ranks_.push_back(
          std::make_unique<Child>(words, variables, folder_ / ("out" + std::to_string(rank))));
    }
  }

  void disturb(Trouble trouble, int victim) {
    const auto rank = static_cast<std::size_t>(victim);
    switch (trouble) {
      case Trouble::kill:
      case Trouble::kill_at_point:
        ranks_[rank]->signal(SIGKILL);
        break;
      case Trouble::freeze:
        ranks_[rank]->signal(SIGSTOP);
        break;
      case Trouble::kill_etcd:
        server_->end();
        break;
      case Trouble::freeze_etcd:
        server_->signal(SIGSTOP);
        break;
      case Trouble::cut:
        hosts_->set_link(victim, false);
        break;
      case Trouble::cut_etcd:
        hosts_->set_link(kMostRanks, false);
        break;
    }
  }

  void repair(Trouble trouble, int victim) {
    if (trouble == Trouble::kill_etcd) server_->start();
    if (trouble == Trouble::freeze_etcd) server_->signal(SIGCONT);
    if (trouble == Trouble::cut) hosts_->set_link(victim, true);
    if (trouble == Trouble::cut_etcd) hosts_->set_link(kMostRanks, true);
  }

  /// True if the job came to its end before it was disturbed.
  bool collect(Trouble trouble, int victim, const std::string& point) {
    const bool at_etcd = trouble == Trouble::kill_etcd || trouble == Trouble::freeze_etcd ||
                         trouble == Trouble::cut_etcd;
    const bool frozen = trouble == Trouble::freeze;
    const auto until = Clock::now() + kEndWithin;
    bool ended = false;
    for (int rank = 0; rank < world_; ++rank) {
      if (rank == victim && frozen) continue;
      Child& process = *ranks_[static_cast<std::size_t>(rank)];
      const int code = process.wait(until);
      const std::string what = std::string(name_of(trouble)) + " " + point + ", of rank " +
                               std::to_string(victim) + " of " + std::to_string(world_) +
                               (etcd_ ? ", etcd" : "") + "; rank " + std::to_string(rank) +
                               " ended with " + std::to_string(code) + ": " + process.said();
      if (code == 0) {
        ended = true;
        continue;
      }
      if (rank == victim && code == 128 + SIGKILL && !at_etcd) continue;
      EXPECT_EQ(code, 75) << what;
      ++figures.survivors;
      // Whose link is down does not know that it is itself who is lost.
      const bool itself = rank == victim && trouble == Trouble::cut;
      EXPECT_TRUE(names(process.said(), at_etcd, itself ? -1 : victim)) << what;
    }
    if (frozen) {  // a zombie ends, too, and has done nothing: the steps and the digest say so
      Child& zombie = *ranks_[static_cast<std::size_t>(victim)];
      zombie.signal(SIGCONT);
      const int code = zombie.wait(Clock::now() + kEndWithin);
      EXPECT_TRUE(code == 75 || code == 0) << code << ": " << zombie.said();
      ended = ended || code == 0;
    }
    check_checkpoint(victim);
    // Rank 0 may have ended well while others still took leave.
    return ended && !test::read_kills_log(folder_ / "log").end.empty();
  }

  /// `victim` -1: anyone may be meant.
  static bool names(const std::string& said, bool etcd, int victim) {
    const auto has = [&](const std::string& text) { return said.find(text) != std::string::npos; };
    if (etcd) return has("etcd at ") && (has("lost") || has("not reached"));
    if (victim < 0) return has("lost") || has("did not join") || has("not reached");
    const std::string number = std::to_string(victim);
    const bool named = has("rank " + number) || (has("ranks ") && has(number));
    return named && (has("lost") || has("did not join") || has("not reached"));
  }

  std::uint64_t newest_checkpoint() const {
    std::uint64_t newest = 0;
    std::error_code none_yet;
    for (const auto& file : std::filesystem::directory_iterator(folder_ / "kept", none_yet)) {
      const std::string name = file.path().filename();
      if (name.starts_with("step-") && name.ends_with(".safetensors"))
        newest = std::max<std::uint64_t>(newest, std::stoull(name.substr(5)));
    }
    return newest;
  }

  /// It continues where the newest checkpoint was, and a new one has steps that all towers made.
  void check_checkpoint(int victim) const {
    const KillsLog log = test::read_kills_log(folder_ / "log");
    if (!log.first_step.contains(run_)) return;
    EXPECT_EQ(log.first_step.at(run_), checkpoint_);
    const std::uint64_t newest = newest_checkpoint();
    if (newest == checkpoint_) return;
    const auto& last = log.last_step.at(run_);
    EXPECT_EQ(last.size(), 4U) << "a checkpoint " << newest << " after " << checkpoint_;
    for (const auto& [tower, step] : last)
      EXPECT_GE(step + 1, newest) << "tower " << tower << ", victim " << victim;
  }

  Rng& random_;
  const bool etcd_;
  const TempFolder folder_;
  std::unique_ptr<Hosts> hosts_;
  std::unique_ptr<EtcdServer> server_;
  std::vector<std::unique_ptr<Child>> ranks_;
  int world_ = 2;
  int run_ = 0;
  std::uint64_t checkpoint_ = 0;
};

KillsLog undisturbed() {
  const TempFolder folder;
  Child alone({built("cluster_victim"), "nowhere", "0", "1", folder / "kept", folder / "log", "0",
               std::to_string(kPeerTimeoutMs)},
              {}, folder / "out");
  EXPECT_EQ(alone.wait(Clock::now() + 60s), 0) << alone.said();
  const KillsLog log = test::read_kills_log(folder / "log");
  const Count count = test::count_elements(log, log, kElements, kEpochs);
  EXPECT_EQ(count.missing + count.repeated, 0);
  EXPECT_FALSE(log.end.empty());
  return log;
}

Trouble choose(Rng& random, bool etcd, bool hosts) {
  if (hosts && random.below(4) != 0)
    return etcd && random.below(4) == 0 ? Trouble::cut_etcd : Trouble::cut;
  const std::uint64_t at = random.below(etcd ? 14 : 10);
  if (at < 4) return Trouble::kill;
  if (at < 8) return Trouble::kill_at_point;
  if (at < 10) return Trouble::freeze;
  return at < 12 ? Trouble::kill_etcd : Trouble::freeze_etcd;
}

void print() {
  int troubles = 0;
  for (const auto& [name, count] : figures.troubles) troubles += count;
  std::printf("figure: jobs %d, starts %d, disturbed %d times, survivors %d\n", figures.jobs,
              figures.starts, troubles, figures.survivors);
  for (const auto& [name, count] : figures.troubles)
    std::printf("figure: %s: %d\n", name.c_str(), count);
  std::string points;
  for (const auto& [point, count] : figures.points)
    points += (points.empty() ? "" : ", ") + point + " " + std::to_string(count);
  std::printf("figure: at kill points: %s\n", points.c_str());
  std::printf(
      "figure: final digests that differ %d; elements missing %d, repeated %d, in another step or "
      "tower %d\n",
      figures.other_digests, figures.elements.missing, figures.elements.repeated,
      figures.elements.elsewhere);
  std::vector<double>& times = figures.ended_within_s;
  std::ranges::sort(times);
  if (!times.empty())
    std::printf("figure: all survivors had ended within: p50 %.1f s, p99 %.1f s, longest %.1f s\n",
                times[times.size() / 2], times[(times.size() - 1) * 99 / 100], times.back());
}

TEST(Kills, SurvivorsAndBitsAcrossKills) {
  const int kills = number_of("PENSTOCK_KILLS", 20);
  const TimeLimit limit(static_cast<unsigned>(100 + kills * 20));
  const KillsLog reference = undisturbed();
  if (HasFailure()) return;
  const bool has_etcd = EtcdServer::installed();
  bool has_hosts = has_etcd && Hosts(1).made();
  if (!has_etcd) std::puts("etcd is not installed: nothing of it is killed");
  if (!has_hosts) std::puts("no network namespace can be made here: no link is taken down");
  Rng random(static_cast<std::uint64_t>(number_of("PENSTOCK_KILLS_SEED", 1)), 0, 0);
  const auto until = Clock::now() + std::chrono::seconds(number_of("PENSTOCK_KILLS_S", 1 << 20));
  int done = 0;
  for (int round = 0; done < kills && Clock::now() < until; ++round) {
    const bool etcd = has_etcd && round % 2 == 1;
    const bool hosts = has_hosts && round % 3 == 2;
    Job job(random, etcd, hosts);
    bool more = true;
    for (int i = 0; i < 5 && more && done < kills; ++i) {
      more = job.start_and_disturb(choose(random, etcd, hosts && job.has_hosts()));
      if (HasFailure()) return;
      done += more ? 1 : 0;
    }
    if (more) job.come_to_the_end();
    if (HasFailure()) return;
    job.compare(reference);
    if (HasFailure()) return;
  }
  print();
}

}  // namespace
}  // namespace penstock::cluster
