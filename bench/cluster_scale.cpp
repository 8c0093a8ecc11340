// Simulates a job of many ranks on one machine.
//   penstock_cluster_scale [LATENCY_US GB_PER_S]
// Costs of calls and messages are measured here, between two ranks over loopback; latency and
// bandwidth of the network are those given, or loopback's. Meeting and signs of life are simulated
// on a virtual clock with the program's own rules (cluster/lobby.h) behind rank 0 as one server
// with a queue; a step is a model of the exchange's messages. Prints one JSON object a row.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <queue>
#include <thread>
#include <vector>

#include <penstock/rng.h>

#include "cluster/lobby.h"
#include "cluster/process_group.h"

namespace penstock::cluster {
namespace {

using Seconds = std::chrono::duration<double>;
constexpr double kPeerTimeout = 10, kBeatEvery = kPeerTimeout / 5;
constexpr double kGlooAddress = 136;   // bytes of one pair's, as Gloo 0.5 writes it
constexpr int kGroups = 2;             // a Job has two
constexpr double kStore = 64 << 20;    // what rank 0 keeps of addresses, at most
constexpr double kValue = 1 << 20;     // and of one rank's
constexpr double kDescriptors = 1024;  // a process's, as systems set it; two for each connection

struct Costs {
  double call_s = 0;     // of rank 0's CPU, for one call of the rendezvous
  double message_s = 0;  // of a rank's CPU, for one message of the exchange
  double latency_s = 0;  // from one rank to another, wakeups included
  double bytes_per_s = 0;
};

double cpu_s() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}
double now_s() {
  return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Two ranks, as threads.
Costs measured() {
  Costs costs;
  const auto rank = [&costs](int number) {
    Cluster cluster;
    cluster.rendezvous = "grpc://127.0.0.1:47811";
    cluster.rank = number;
    cluster.world = 2;
    const auto rendezvous = open_rendezvous(cluster, {});
    rendezvous->join({});
    constexpr int kCalls = 2000;
    if (number == 1) {
      const double before = cpu_s();
      for (int i = 0; i < kCalls; ++i) rendezvous->put("key " + std::to_string(i), "value");
      costs.call_s = (cpu_s() - before) / kCalls / 2;  // half of it is the caller's
    }
    const auto group = open_process_group(*rendezvous, cluster, {});
    std::vector<float> few(1), many(16 << 20);
    group->sum(few);
    const double start = now_s(), before = cpu_s();
    for (int i = 0; i < kCalls; ++i) group->sum(few);
    if (number == 0) {
      costs.latency_s = (now_s() - start) / kCalls;
      costs.message_s = (cpu_s() - before) / kCalls / 2;
    }
    group->sum(many);
    const double long_start = now_s();
    group->sum(many);
    if (number == 0)
      costs.bytes_per_s = static_cast<double>(many.size() * sizeof(float)) / (now_s() - long_start);
  };
  std::jthread other(rank, 1);
  rank(0);
  return costs;
}

/// Events in the order of a virtual clock.
class Simulation {
 public:
  double now() const noexcept { return now_; }
  void at(double time, std::function<void()> act) { events_.push({time, next_++, std::move(act)}); }
  void run(double until) {
    while (!events_.empty() && events_.top().time <= until) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      event.act();
    }
    now_ = until;
  }

 private:
  struct Event {
    double time;
    std::uint64_t number;
    std::function<void()> act;
    bool operator<(const Event& other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };
  std::priority_queue<Event> events_;
  std::uint64_t next_ = 0;
  double now_ = 0;
};

/// Ranks that join within a second of each other, live, and of which one dies.
class Meeting {
 public:
  Meeting(int world, const Costs& costs)
      : world_(world),
        costs_(costs),
        lobby_(world, std::chrono::duration_cast<Lobby::Duration>(Seconds(kPeerTimeout))),
        joined_(index(world)) {
    Rng rng(1, index(world), 0);
    for (int rank = 0; rank < world; ++rank) {
      const double start = rng.uniform();
      last_start_ = std::max(last_start_, start);
      simulation_.at(start, [this, rank] { join(rank); });
    }
  }

  /// Seconds until all know that all have come, behind the last one's start.
  double meet() {
    for (double until = 1; last_joined_ == 0 && until < 3600; until += 1) simulation_.run(until);
    return last_joined_ - last_start_;
  }
  /// The share of rank 0's one core that signs of life take, and the longest that one waited.
  std::pair<double, double> live() {
    busy_ = longest_ = 0;
    const double from = simulation_.now();
    simulation_.run(from + 60);
    return {busy_ / 60, longest_};
  }
  /// Seconds until the last rank hears that one was lost.
  double lose() {
    const double died = simulation_.now();
    dead_ = world_ - 1;
    simulation_.run(died + 10 * kPeerTimeout);
    return last_told_ - died;
  }
  std::string verdict() const { return lobby_.status().ok() ? "" : lobby_.status().error().what(); }

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  Lobby::Time clock() const {
    return Lobby::Time(std::chrono::duration_cast<Lobby::Duration>(Seconds(simulation_.now())));
  }
  /// Rank 0 answers one call after the other; `then` runs where it was called from.
  void call(std::function<void()> serve, std::function<void()> then) {
    const double asked = simulation_.now();
    free_at_ = std::max(free_at_, asked + costs_.latency_s) + costs_.call_s;
    busy_ += costs_.call_s;
    longest_ = std::max(longest_, free_at_ - asked);
    simulation_.at(free_at_, [this, serve = std::move(serve), then = std::move(then)] {
      serve();
      simulation_.at(simulation_.now() + costs_.latency_s, then);
    });
  }
  void join(int rank) {
    call(
        [this, rank] {
          static_cast<void>(lobby_.join(rank, "a", {{"version", "1"}}, clock()));
        },
        [this, rank] {
          if (!lobby_.complete()) {
            const double pause = 0.02 + 0.0005 * world_;
            return simulation_.at(simulation_.now() + pause, [this, rank] { join(rank); });
          }
          if (joined_[index(rank)]) return;
          joined_[index(rank)] = true;
          if (++count_ == world_) last_joined_ = simulation_.now();
          beat(rank);
        });
  }
  void beat(int rank) {
    if (rank == dead_) return;
    auto heard = std::make_shared<bool>(false);
    call(
        [this, rank, heard] {
          lobby_.beat(rank, "a", clock());
          lobby_.look(clock());
          *heard = !lobby_.status().ok();
        },
        [this, rank, heard] {
          if (*heard) {
            last_told_ = simulation_.now();
          } else {
            simulation_.at(simulation_.now() + kBeatEvery, [this, rank] { beat(rank); });
          }
        });
  }

  const int world_;
  const Costs costs_;
  Lobby lobby_;
  Simulation simulation_;
  std::vector<bool> joined_;
  int count_ = 0, dead_ = -1;
  double free_at_ = 0, busy_ = 0, longest_ = 0, last_joined_ = 0, last_told_ = 0;
  double last_start_ = 0;
};

/// Seconds in which all ranks have connected with all others: each rank's addresses, one for each
/// other, go to rank 0, and from there to all.
double connect_s(double world, const Costs& costs) {
  const double bytes = kGroups * world * world * (world - 1) * kGlooAddress;
  const double calls = kGroups * world * world * costs.call_s;
  const double own = kGroups * (world - 1) * 4 * costs.message_s;
  return std::max(bytes / costs.bytes_per_s, calls) + own + 4 * costs.latency_s;
}

/// One sum of so many bytes, as cluster/net/sums.cpp sends them.
double sum_s(Exchange exchange, double world, double bytes, const Costs& costs) {
  if (bytes * (world - 1) <= 256 * 1024) {
    const double messages = world > 4 ? std::ceil(std::log2(world)) : world - 1;
    const double waits = world > 4 ? messages : 1;
    return waits * costs.latency_s + messages * costs.message_s +
           (world - 1) * bytes / costs.bytes_per_s;
  }
  const double moved = 2 * bytes * (world - 1) / world / costs.bytes_per_s;
  if (exchange == Exchange::ring)
    return moved + 2 * (world - 1) * (costs.latency_s + costs.message_s);
  return moved + 2 * costs.latency_s + 2 * (world - 1) * costs.message_s;
}

struct Step {
  double step_s, exposed_s;
};

/// ResNet-50's gradients, 102 MB in buckets of 4 MiB, on ranks whose backward passes of 0.2 s
/// become ready evenly; each rank's step varies by 2 %, and all wait for the slowest.
Step step_of(Exchange exchange, int world, const Costs& costs) {
  constexpr double kForward = 0.1, kBackward = 0.2, kBytes = 102e6, kBucket = 4 << 20;
  constexpr int kSteps = 50;
  const int buckets = static_cast<int>(std::ceil(kBytes / kBucket));
  Rng rng(2, static_cast<std::uint64_t>(world), 0);
  Step mean{0, 0};
  for (int step = 0; step < kSteps; ++step) {
    double slowest = 0;
    for (int rank = 0; rank < world; ++rank) {
      const double normal = std::sqrt(-2 * std::log(1 - rng.uniform())) *
                            std::cos(2 * 3.14159265358979 * rng.uniform());
      slowest = std::max(slowest, 1 + 0.02 * normal);
    }
    double done = 0;
    for (int bucket = 0; bucket < buckets; ++bucket) {
      const double ready = slowest * (kForward + kBackward * (bucket + 1) / buckets);
      // Its rows are told first, by a message of their own.
      done = std::max(done, ready) + sum_s(exchange, world, 64, costs) +
             sum_s(exchange, world, kBucket, costs);
    }
    mean.step_s += done / kSteps;
    mean.exposed_s += (done - slowest * (kForward + kBackward)) / kSteps;
  }
  return mean;
}

void print(int world, const Costs& costs) {
  Meeting meeting(world, costs);
  const double met = meeting.meet();
  const auto [share, longest] = meeting.live();
  const std::string false_alarm = meeting.verdict();
  const double told = meeting.lose();
  const Step ordered = step_of(Exchange::ordered, world, costs);
  const Step ring = step_of(Exchange::ring, world, costs);
  const double addresses = kGroups * static_cast<double>(world) * world * kGlooAddress;
  std::string broken;
  const auto breaks = [&](bool does, const char* what) {
    if (does) broken += (broken.empty() ? "" : "; ") + std::string(what);
  };
  breaks(2.0 * kGroups * (world - 1) > kDescriptors, "descriptors: more than 1,024 for each rank");
  breaks(addresses > kStore || world * kGlooAddress > kValue, "addresses: more than rank 0 keeps");
  breaks(!false_alarm.empty(), "signs of life: rank 0 is too slow for them");
  std::printf(
      "{\"ranks\": %d, \"meet_s\": %.2f, \"connect_s\": %.2f, \"beats_share\": %.4f, "
      "\"longest_beat_s\": %.4f, \"death_heard_s\": %.1f, \"ordered_step_s\": %.3f, "
      "\"ordered_exposed_s\": %.3f, \"ring_step_s\": %.3f, \"ring_exposed_s\": %.3f, "
      "\"addresses_mb\": %.1f, \"breaks\": \"%s\"}\n",
      world, met, connect_s(world, costs), share, longest, told, ordered.step_s, ordered.exposed_s,
      ring.step_s, ring.exposed_s, addresses / 1e6, broken.c_str());
}

}  // namespace
}  // namespace penstock::cluster

int main(int argc, char** argv) {
  using namespace penstock::cluster;
  try {
    Costs costs = measured();
    if (argc == 3) {
      costs.latency_s = std::atof(argv[1]) * 1e-6;
      costs.bytes_per_s = std::atof(argv[2]) * 1e9;
    }
    std::printf(
        "{\"call_us\": %.1f, \"message_us\": %.1f, \"latency_us\": %.1f, \"gb_per_s\": %.2f}\n",
        costs.call_s * 1e6, costs.message_s * 1e6, costs.latency_s * 1e6, costs.bytes_per_s / 1e9);
    for (const int world : {8, 64, 512, 4096}) print(world, costs);
  } catch (const penstock::Error& error) {
    std::fprintf(stderr, "penstock_cluster_scale: %s\n", error.what());
    return 1;
  }
  return 0;
}
