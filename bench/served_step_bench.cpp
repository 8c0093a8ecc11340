// One process of a job with parameter servers, whose batch stays in memory: bench/served.py starts
// them, beside TensorFlow's.
//   penstock_served_step_bench ps|trainer INDEX TRAINERS SERVERS MODEL IMAGES BATCH < commands
// SERVERS are addresses, "a:1,b:2"; IMAGES are records as CIFAR-10's. A trainer's command is a
// number of steps of its one tower, on one thread, by `async`; it answers the seconds that they
// took.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <penstock/error.h>
#include <penstock/sources.h>

#include "cluster/parameter_servers.h"
#include "towers/servers/served_job.h"
#include "towers/servers/served_loop.h"
#include "towers/servers/shard_server.h"
#include "towers/train/tower_set.h"
#include "towers/train/tower_steps.h"
#include "towers/train/train_plan.h"

namespace penstock::bench {
namespace {

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream words(list);
  for (std::string one; std::getline(words, one, ',');) parts.push_back(one);
  return parts;
}

void ready() {
  std::puts("ready");
  std::fflush(stdout);
}

void serve(const std::string& address) {
  towers::ShardServer rules;
  const auto served = cluster::serve_parameters(rules, address, {}, [&] { rules.look(); });
  ready();
  while (std::cin.get() != EOF) {
  }
}

void step(towers::TowerSet& set, towers::ServedStrategy& strategy, const StagedBatch& batch) {
  towers::TowerSteps made(set, 0, strategy, FeedMode::per_tower,
                          [](const towers::LateLoss::Told&) {});
  const auto one = [&] {
    if (!strategy.draw(0) || !strategy.ready(0))
      throw Error(ErrorCode::internal, "the run is over");
    made.make(batch, strategy.local_step(0));
  };
  one();
  ready();
  for (std::uint64_t steps = 0; std::cin >> steps;) {
    const auto start = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < steps; ++i) one();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("%.9f\n", took.count());
    std::fflush(stdout);
  }
}

void train(char** arguments) {
  towers::ServedJob job;
  job.process = std::atoi(arguments[2]);
  job.processes = std::atoi(arguments[3]);
  job.incarnation = std::to_string(std::random_device()());
  job.addresses = split(arguments[4]);
  for (std::size_t s = 0; s < job.addresses.size(); ++s)
    job.servers.push_back(
        cluster::open_parameter_server("ps " + std::to_string(s), job.addresses[s], {}));
  const towers::ModelKind& kind = towers::model_kind(arguments[5]);
  towers::TrainOptions given;
  given.devices = devices("host:0");
  given.batch = std::atoi(arguments[7]);
  given.threads = 1;
  given.strategy.kind = towers::StrategyKind::async;
  given.strategy.update = {towers::make_optimizer("sgd"), towers::Schedule::constant(0.001)};
  given.strategy.served = &job;
  const towers::TrainOptions options = towers::completed(given);
  towers::TowerSet set(kind.make, options, {});
  auto strategy = std::make_unique<towers::ServedStrategy>(set.store(), options.strategy);
  towers::ServedStrategy& served = *strategy;
  const std::atomic<bool> stopped{false};
  towers::ServedLoop loop({set, options, stopped}, std::move(strategy));
  static_cast<void>(loop.start(std::nullopt, 0, 0));
  Feed feed(kind.input(cifar10({arguments[6]}), false).batch(options.batch), options.devices,
            options.feed);
  set.run(
      [&](int tower) {
        std::optional<StagedBatch> batch = feed.next(tower);
        if (!batch) throw Error(ErrorCode::invalid_argument, "less than a batch of images");
        set.take(*batch, tower);
        step(set, served, *batch);
        batch->release(set.stream(tower));
      },
      [&](const Status& status) {
        served.fail(status);
        feed.cancel();
      });
}

}  // namespace
}  // namespace penstock::bench

int main(int count, char** arguments) {
  if (count != 8) {
    std::fputs(
        "penstock_served_step_bench ps|trainer INDEX TRAINERS SERVERS MODEL IMAGES BATCH < "
        "commands\n",
        stderr);
    return 2;
  }
  try {
    if (std::string(arguments[1]) == "ps") {
      const auto addresses = penstock::bench::split(arguments[4]);
      penstock::bench::serve(addresses.at(static_cast<std::size_t>(std::atoi(arguments[2]))));
    } else {
      penstock::bench::train(arguments);
    }
  } catch (const penstock::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
