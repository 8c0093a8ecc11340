// Small runs on parameter servers, for tests.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "towers/servers/shard_server.h"

namespace penstock::towers::test {

/// A clock that the test sets.
class HandClock {
 public:
  using Time = std::chrono::steady_clock::time_point;
  void pass(std::chrono::milliseconds time) { *now_ += time.count(); }
  std::function<Time()> reader() const {
    return [now = now_] { return Time(std::chrono::milliseconds(*now)); };
  }

 private:
  using Milliseconds = std::atomic<std::chrono::milliseconds::rep>;
  std::shared_ptr<Milliseconds> now_ = std::make_shared<Milliseconds>(0);
};

/// A taker that keeps the values it receives.
class Values final : public Takers {
 public:
  float* place(std::uint32_t variable, std::size_t count) override {
    std::vector<float>& to = given[variable];
    to.assign(count, 0);
    return to.data();
  }
  std::map<std::uint32_t, std::vector<float>> given{};
};

inline Trainee trainee(int process, const std::string& incarnation = "a") {
  return {process, incarnation};
}

/// Returns a run with variables 0, a [2], and 1, b [1], both ones, and sgd with a rate of 1.
inline Beginning small_beginning(const std::string& strategy, int processes) {
  Beginning beginning;
  beginning.run = "run";
  beginning.processes = processes;
  beginning.replicas = processes;
  beginning.strategy = strategy;
  beginning.combine = "average";
  beginning.optimizer = "sgd";
  beginning.schedule = "constant:1";
  beginning.variables = {{0, "a", {2}, true, false}, {1, "b", {1}, true, false}};
  beginning.pushes.assign(static_cast<std::size_t>(processes), 0);
  for (int p = 0; p < processes; ++p) beginning.feeds.push_back({"", {0}});
  return beginning;
}

/// Begins the run, gives ones as initial values, and lets all processes enter.
inline void open_run(ShardServer& server, const Beginning& beginning) {
  server.begin(beginning, trainee(0));
  for (const ServedVariable& one : beginning.variables) {
    const std::vector<float> ones(static_cast<std::size_t>(one.shape.volume()), 1.0F);
    server.give(beginning.run, -1, {one.number, ones.data(), ones.size(), nullptr, 0});
  }
  server.ready(beginning.run);
  for (int p = 1; p < beginning.processes; ++p)
    static_cast<void>(server.enter(trainee(p), beginning.facts, std::chrono::seconds(1)));
}

/// A push for variables 0 and 1 in which all gradients are `value`.
class SmallPush {
 public:
  SmallPush(int replica, std::uint64_t number, std::uint64_t seen, float value,
            std::int64_t rows = 1)
      : values_{value, value} {
    push_.replica = replica;
    push_.number = number;
    push_.seen = seen;
    push_.rows = rows;
    push_.pieces = {{0, values_.data(), 2, nullptr, 0}, {1, values_.data(), 1, nullptr, 0}};
  }
  SmallPush(const SmallPush&) = delete;
  SmallPush& operator=(const SmallPush&) = delete;
  Push& operator*() { return push_; }
  Push* operator->() { return &push_; }

 private:
  std::vector<float> values_;
  Push push_;
};

inline std::vector<float> values_of(ShardServer& server, const Trainee& who,
                                    std::uint32_t variable) {
  Values values;
  static_cast<void>(server.pull(who, kHasNothing, values));
  return values.given.at(variable);
}

}  // namespace penstock::towers::test
