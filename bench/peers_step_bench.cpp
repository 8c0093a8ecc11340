// One rank of a training job whose batch stays in memory: bench/ddp.py starts as many as there are
// ranks, beside PyTorch's.
//   penstock_peers_step_bench ADDRESS RANK WORLD MODEL IMAGES BATCH ordered|ring < commands
// IMAGES are records as CIFAR-10's. A command is a line "exchanged|alone STEPS": steps of one tower
// and one thread, with gradients exchanged, or each rank by itself. Answers the mean seconds of one
// step.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

#include <penstock/error.h>
#include <penstock/sources.h>

#include "cluster/job.h"
#include "towers/train/tower_set.h"
#include "towers/train/tower_steps.h"
#include "towers/train/train_plan.h"

namespace penstock::bench {
namespace {

/// Other ranks, which may be left out: then every rank takes its own gradients for all.
class Switch final : public towers::Peers {
 public:
  explicit Switch(towers::Peers& peers) : peers_(peers) {}
  void leave_out(bool out) noexcept { out_ = out; }

  int rank() const noexcept override { return peers_.rank(); }
  int size() const noexcept override { return peers_.size(); }
  void sum(std::span<float> values) override {
    if (!out_) peers_.sum(values);
  }
  void gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    if (!out_) return peers_.gather(mine, all);
    for (std::size_t at = 0; at < all.size(); at += mine.size())
      std::memcpy(all.data() + at, mine.data(), mine.size());
  }
  void gather_between_towers(std::span<const std::byte> mine, std::span<std::byte> all) override {
    peers_.gather_between_towers(mine, all);
  }
  void fail(const Status& error) noexcept override { peers_.fail(error); }

 private:
  towers::Peers& peers_;
  bool out_ = false;  // read by the exchange's thread, set between steps
};

void serve(towers::TowerSet& set, towers::Strategy& strategy, const StagedBatch& batch,
           Switch& others) {
  towers::TowerSteps made(set, 0, strategy, FeedMode::per_tower,
                          [](const towers::LateLoss::Told&) {});
  std::puts("ready");
  std::fflush(stdout);
  std::string how;
  std::uint64_t steps = 0;
  std::uint64_t step = 0;
  while (std::cin >> how >> steps) {
    others.leave_out(how == "alone");
    made.make(batch, step++);
    const auto start = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < steps; ++i) made.make(batch, step++);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("%.9f\n", took.count() / static_cast<double>(steps));
    std::fflush(stdout);
  }
}

void run(char** arguments) {
  cluster::Cluster cluster;
  cluster.rendezvous = std::string("grpc://") + arguments[1];
  cluster.rank = std::atoi(arguments[2]);
  cluster.world = std::atoi(arguments[3]);
  cluster::ProcessGroupOptions group;
  group.exchange = cluster::parse_exchange(arguments[7]);
  cluster::Job job(cluster, {}, group, {});
  Switch others(job);
  const towers::ModelKind& kind = towers::model_kind(arguments[4]);
  towers::TrainOptions given;
  given.devices = devices("host:0");
  given.batch = std::atoi(arguments[6]);
  given.threads = 1;
  given.strategy.update = {towers::make_optimizer("sgd"), towers::Schedule::constant(0.001)};
  const towers::TrainOptions alone = towers::completed(given);
  towers::TrainOptions options = given;
  options.strategy.peers = &others;
  options = towers::completed(options);
  towers::TowerSet set(kind.make, options, {});
  const towers::StrategyPtr strategy = towers::make_strategy(set.store(), options.strategy);
  Feed feed(kind.input(cifar10({arguments[5]}), false).batch(alone.batch), alone.devices,
            alone.feed);
  set.run(
      [&](int tower) {
        std::optional<StagedBatch> batch = feed.next(tower);
        if (!batch) throw Error(ErrorCode::invalid_argument, "less than a batch of images");
        set.take(*batch, tower);
        serve(set, *strategy, *batch, others);
        batch->release(set.stream(tower));
      },
      [&](const Status& status) {
        strategy->fail(status);
        feed.cancel();
      });
}

}  // namespace
}  // namespace penstock::bench

int main(int count, char** arguments) {
  if (count != 8) {
    std::fputs(
        "penstock_peers_step_bench ADDRESS RANK WORLD MODEL IMAGES BATCH ordered|ring < commands\n",
        stderr);
    return 2;
  }
  try {
    penstock::bench::run(arguments);
  } catch (const penstock::Error& error) {
    std::fprintf(stderr, "penstock_peers_step_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
