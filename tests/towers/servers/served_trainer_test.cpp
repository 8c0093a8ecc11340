// Trainers with parameter servers: a chief and workers, each a thread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include <penstock/rng.h>

#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/time_limit.h"
#include "tests/towers/servers/local_job.h"

namespace penstock::towers {
namespace {

using penstock::test::TempFolder;
using penstock::test::TimeLimit;
using std::chrono::milliseconds;
using test::Ended;
using test::Hidden;
using test::Linear;
using test::LocalServers;
using test::maker;
using test::options_for;
using test::points;
using test::run_job;

constexpr milliseconds kPeerTimeout{20'000};  // nobody is lost on a slow machine

TrainOptions options_of(StrategyKind kind, const std::string& optimizer, float clip_norm) {
  TrainOptions options = options_for(1, 8);
  options.epochs = 2;
  options.strategy.kind = kind;
  options.strategy.update = {make_optimizer(optimizer), Schedule::parse("cosine:0.1"), clip_norm};
  return options;
}

/// What one process with so many towers makes of it.
TrainResult on_one_process(const ModelMaker& make, const Dataset& data, TrainOptions options,
                           int towers) {
  const TrainOptions all = options_for(towers, options.batch);
  options.devices = all.devices;
  options.strategy.kind = StrategyKind::replicated;
  TrainObserver nobody;
  Trainer trainer(make, data, std::nullopt, options);
  return trainer.run(nobody);
}

TEST(ServedTrainer, BitsOfSyncReplicasOfAll) {
  const TimeLimit limit(300);
  struct Case {
    std::string optimizer;
    float clip_norm;
    int servers, processes, towers;
    ModelMaker make;
  };
  const std::vector<Case> cases{{"sgd", 0, 1, 4, 1, maker<Linear>()},
                                {"momentum:0.9", 0, 2, 4, 1, maker<Hidden>()},
                                {"adam", 0, 2, 2, 2, maker<Hidden>()},
                                {"momentum:0.9", 0.05F, 2, 4, 1, maker<Hidden>()},
                                {"sgd", 0.05F, 3, 2, 2, maker<Hidden>()}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.optimizer + " on " + std::to_string(one.servers));
    TrainOptions options = options_of(StrategyKind::sync_replicas, one.optimizer, one.clip_norm);
    options.devices = options_for(one.towers, 8).devices;
    options.deterministic = true;
    const TrainResult expected =
        on_one_process(one.make, points(320).shuffle(), options, one.processes * one.towers);
    LocalServers servers(one.servers, kPeerTimeout);
    const std::vector<Ended> ended =
        run_job(servers, one.make, points(320).shuffle(), options, one.processes);
    for (const Ended& process : ended) ASSERT_TRUE(process.result) << process.error->what();
    EXPECT_EQ(ended[0].result->digest, expected.digest);
    EXPECT_EQ(ended[0].result->steps, expected.steps);
    EXPECT_EQ(ended[0].result->strategy.applied, 320U * 2 / 8);
    EXPECT_EQ(ended[0].result->strategy.dropped, 0U);
    EXPECT_EQ(ended[0].result->elements, expected.elements) << "of all processes";
    EXPECT_EQ(servers.at(0).ended(milliseconds(0))->ok(), true);
  }
}

TEST(ServedTrainer, StepsOfAsync) {
  const TimeLimit limit(300);
  struct Case {
    int servers, towers, max_staleness;
    std::uint64_t max_steps;
  };
  for (const Case& one : {Case{2, 1, -1, 0}, Case{1, 2, -1, 0}, Case{2, 1, -1, 37},
                          Case{1, 1, -1, 37}, Case{2, 1, 1, 0}, Case{2, 2, 0, 0}}) {
    SCOPED_TRACE(std::to_string(one.servers) + " servers, staleness " +
                 std::to_string(one.max_staleness));
    TrainOptions options = options_of(StrategyKind::async, "sgd", 0);
    options.devices = options_for(one.towers, 8).devices;
    options.max_steps = one.max_steps;
    options.strategy.max_staleness = one.max_staleness;
    LocalServers servers(one.servers, kPeerTimeout);
    const std::vector<Ended> ended =
        run_job(servers, maker<Linear>(), points(640).shuffle(), options, 4);
    for (const Ended& process : ended) ASSERT_TRUE(process.result) << process.error->what();
    const TrainResult& result = *ended[0].result;
    const std::uint64_t batches = 640 * 2 / 8;
    EXPECT_EQ(result.steps, result.strategy.applied);
    if (one.max_steps > 0) {
      EXPECT_EQ(result.steps, one.max_steps);
    } else {
      EXPECT_EQ(result.strategy.applied + result.strategy.dropped, batches);
      EXPECT_EQ(result.elements, 640U * 2);
      if (one.max_staleness < 0) {
        EXPECT_EQ(result.strategy.dropped, 0U);
      }
      EXPECT_LT(result.losses.back(), result.losses.front());
    }
    std::uint64_t counted = 0;
    for (const std::uint64_t count : result.strategy.staleness) counted += count;
    EXPECT_EQ(counted, result.strategy.applied);
    if (one.max_staleness >= 0) {
      EXPECT_LE(result.strategy.staleness.size(), static_cast<std::size_t>(one.max_staleness) + 1);
    }
    // Every push counts on every server, or on none.
    for (int s = 1; s < one.servers; ++s)
      EXPECT_EQ(servers.at(s).figures("run of 0").applied, result.strategy.applied);
  }
}

TEST(ServedTrainer, StalePushesOfBackups) {
  const TimeLimit limit(300);
  TrainOptions options = options_of(StrategyKind::sync_replicas, "sgd", 0);
  options.strategy.aggregate = 2;
  LocalServers servers(2, kPeerTimeout);
  const std::vector<Ended> ended =
      run_job(servers, maker<Linear>(), points(640).shuffle(), options, 3);
  for (const Ended& process : ended) ASSERT_TRUE(process.result) << process.error->what();
  const StrategyStats& stats = ended[0].result->strategy;
  EXPECT_EQ(stats.applied, ended[0].result->steps * 2);
  EXPECT_EQ(stats.applied + stats.dropped, 640U / 24 * 3 * 2) << "each batch is one or the other";
}

/// Delays calls, each by another time in each run.
class Delays : public test::Borrowed {
 public:
  Delays(ParameterServer& server, std::uint64_t seed) : Borrowed(server), seed_(seed) {}

 protected:
  void before() override {
    const std::uint64_t drawn = Rng(seed_, calls_++, 0).below(8);
    if (drawn < 3) std::this_thread::sleep_for(std::chrono::microseconds(400 * drawn));
  }

 private:
  const std::uint64_t seed_;
  std::atomic<std::uint64_t> calls_ = 0;
};

/// Runs a job whose calls are delayed. Returns the contents of its checkpoints, by name.
std::map<std::string, std::string> checkpoints_of(TrainOptions options, int processes,
                                                  std::uint64_t seed, const TempFolder& folder) {
  options.checkpoint_folder = folder.path();
  options.checkpoints_kept = 1000;
  LocalServers servers(2, kPeerTimeout);
  std::vector<Ended> ended(static_cast<std::size_t>(processes));
  {
    std::vector<std::jthread> threads;
    for (int p = 0; p < processes; ++p)
      threads.emplace_back([&, p] {
        const auto delayed = [&](ParameterServer& server) {
          return std::make_shared<Delays>(server, seed * 100 + static_cast<std::uint64_t>(p));
        };
        const ServedJob job =
            test::job_of(servers, p, processes, "run of " + std::to_string(p), delayed);
        ended[static_cast<std::size_t>(p)] =
            test::run_process(maker<Hidden>(), points(320).shuffle(), options, job);
      });
  }
  for (const Ended& process : ended)
    if (!process.result) throw Error(*process.error);
  return test::checkpoints_in(folder.path());
}

TEST(ServedTrainer, DeterministicCheckpoints) {
  const TimeLimit limit(300);
  struct Case {
    int processes, towers;
    std::uint64_t every, max_steps;
    std::size_t files;
  };
  // 320 points in batches of 8 are 40 batches an epoch, of which four towers make 10 updates.
  for (const Case& one :
       {Case{4, 1, 3, 0, 7}, Case{2, 2, 3, 0, 7}, Case{4, 1, 0, 0, 2}, Case{2, 2, 4, 14, 4}}) {
    SCOPED_TRACE(std::to_string(one.processes) + " processes, every " + std::to_string(one.every));
    TrainOptions options = options_of(StrategyKind::sync_replicas, "adam", 0.1F);
    options.devices = options_for(one.towers, 8).devices;
    options.deterministic = true;
    options.checkpoint_every = one.every;
    options.max_steps = one.max_steps;
    const TempFolder folder, other;
    const auto files = checkpoints_of(options, one.processes, 1, folder);
    EXPECT_EQ(files.size(), one.files);
    for (std::uint64_t seed = 2; seed < 4; ++seed) {
      const TempFolder again;
      EXPECT_TRUE(checkpoints_of(options, one.processes, seed, again) == files) << seed;
    }
    // A run that resumes from the one in the middle writes the same later ones.
    auto later = files;
    for (std::size_t i = 0; i < one.files / 2; ++i) later.erase(later.begin());
    other.write(later.begin()->first, later.begin()->second);
    EXPECT_TRUE(checkpoints_of(options, one.processes, 4, other) == later);
  }
}

TEST(ServedTrainer, GoesOnFromACheckpointToTheBit) {
  const TimeLimit limit(300);
  TrainOptions options = options_of(StrategyKind::sync_replicas, "adam", 0.1F);
  options.epochs = 4;
  const Dataset data = points(320).shuffle();
  const TrainResult expected = on_one_process(maker<Hidden>(), data, options, 4);
  const TempFolder folder;
  options.checkpoint_folder = folder.path();
  options.checkpoint_every = 7;
  LocalServers servers(2, kPeerTimeout);
  // The chief is stopped in the middle; the run ends for all, and starts again on the same servers.
  class Stopper : public TrainObserver {
   public:
    void on_step(const StepReport& /*report*/) override {
      if (++steps_ == 12) trainer->stop();
    }
    Trainer* trainer = nullptr;

   private:
    int steps_ = 0;
  };
  {
    std::vector<std::jthread> threads;
    for (int p = 0; p < 4; ++p)
      threads.emplace_back([&, p] {
        const ServedJob job = test::job_of(servers, p, 4, "first of " + std::to_string(p));
        TrainOptions mine = options;
        mine.strategy.served = &job;
        try {
          Stopper stopper;
          Trainer trainer(maker<Hidden>(), data, std::nullopt, mine);
          TrainObserver nobody;
          stopper.trainer = &trainer;
          static_cast<void>(trainer.run(p == 0 ? static_cast<TrainObserver&>(stopper) : nobody));
          EXPECT_EQ(p, 0) << "workers are told that the run has ended";
        } catch (const Error& error) {
          EXPECT_THAT(error.what(), testing::HasSubstr("the chief was stopped")) << p;
        }
      });
  }
  const std::vector<Ended> ended = run_job(servers, maker<Hidden>(), data, options, 4, "second");
  for (const Ended& process : ended) ASSERT_TRUE(process.result) << process.error->what();
  EXPECT_GT(ended[0].result->resumed_at, 5U);
  EXPECT_EQ(ended[0].result->steps, expected.steps);
  EXPECT_EQ(ended[0].result->digest, expected.digest);
  // From the checkpoint of its end the run has nothing to do: who waits for it is told so.
  Ended late;
  {
    std::jthread waits([&] {
      const ServedJob job = test::job_of(servers, 1, 4, "third of 1");
      late = test::run_process(maker<Hidden>(), data, options, job);
    });
    std::this_thread::sleep_for(milliseconds(300));
    const ServedJob job = test::job_of(servers, 0, 4, "third of 0");
    const Ended chief = test::run_process(maker<Hidden>(), data, options, job);
    ASSERT_TRUE(chief.result) << chief.error->what();
    EXPECT_EQ(chief.result->digest, expected.digest);
  }
  ASSERT_TRUE(late.result) << late.error->what();
  EXPECT_EQ(late.result->steps, expected.steps);
  // Another number of processes is refused by name.
  LocalServers others(2, kPeerTimeout);
  const ServedJob job = test::job_of(others, 0, 2, "third");
  options.devices = options_for(2, 8).devices;
  const Ended refused = test::run_process(maker<Hidden>(), data, options, job);
  ASSERT_TRUE(refused.error);
  EXPECT_THAT(refused.error->what(), testing::HasSubstr("number of processes is 4, not 2"));
}

}  // namespace
}  // namespace penstock::towers
