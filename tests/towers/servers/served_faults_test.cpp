// Jobs with parameter servers that lose calls, workers, and the chief.
#include <filesystem>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/rng.h>

#include "tests/support/files.h"
#include "tests/support/time_limit.h"
#include "tests/towers/servers/local_job.h"

namespace penstock::towers {
namespace {

using penstock::test::TempFolder;
using penstock::test::TimeLimit;
using std::chrono::milliseconds;
using test::Borrowed;
using test::Ended;
using test::Hidden;
using test::job_of;
using test::Linear;
using test::LocalServers;
using test::maker;
using test::options_for;
using test::points;
using test::run_process;

constexpr milliseconds kLong{20'000};  // nobody is lost on a slow machine

/// Loses requests and answers, each of which is made again; and kills who has it.
class Faulty final : public Borrowed {
 public:
  Faulty(ParameterServer& server, std::uint64_t seed, std::shared_ptr<std::atomic<bool>> killed)
      : Borrowed(server), rng_(seed, 0, 0), killed_(std::move(killed)) {}

 protected:
  void before() override { meet("request"); }
  void after() override { meet("answer"); }
  int tries() const override { return 200; }

 private:
  void meet(const char* what) {
    if (*killed_) throw Error(ErrorCode::cancelled, "killed");
    const std::lock_guard lock(mutex_);
    if (rng_.below(8) == 0)
      throw Error(ErrorCode::unavailable, std::string("the ") + what + " was lost");
  }

  std::mutex mutex_;
  Rng rng_;  // guarded by mutex_
  const std::shared_ptr<std::atomic<bool>> killed_;
};

TrainOptions options_of(StrategyKind kind) {
  TrainOptions options = options_for(1, 8);
  options.epochs = 3;
  options.checkpoint_every = 9;  // that is when workers tell of their input
  options.strategy.kind = kind;
  options.strategy.update = {make_optimizer("momentum:0.9"), Schedule::constant(0.02)};
  return options;
}

/// A worker that is killed so often at random moments, and each time started again.
Ended run_killed(LocalServers& servers, const ModelMaker& make, const Dataset& data,
                 const TrainOptions& options, int process, int processes, int kills,
                 std::uint64_t seed) {
  Rng rng(seed, 1, 0);
  for (int life = 0;; ++life) {
    const auto killed = std::make_shared<std::atomic<bool>>(false);
    std::uint64_t number = 0;
    const ServedJob job = job_of(
        servers, process, processes,
        "life " + std::to_string(life) + " of " + std::to_string(process),
        [&](ParameterServer& server) {
          return std::make_shared<Faulty>(
              server, seed * 1000 + static_cast<std::uint64_t>(life) * 10 + number++, killed);
        });
    Ended ended;
    {
      std::jthread killer;
      if (life < kills)
        killer = std::jthread([&, after = milliseconds(5 + rng.below(60))] {
          std::this_thread::sleep_for(after);
          *killed = true;
        });
      ended = run_process(make, data, options, job);
    }
    if (ended.result || !*killed) return ended;
  }
}

/// A job whose workers are killed; the chief loses calls only.
std::vector<Ended> run_all_killed(LocalServers& servers, const ModelMaker& make,
                                  const Dataset& data, const TrainOptions& options, int processes,
                                  std::uint64_t seed) {
  std::vector<Ended> ended(static_cast<std::size_t>(processes));
  std::vector<std::jthread> threads;
  for (int p = 0; p < processes; ++p)
    threads.emplace_back([&, p] {
      ended[static_cast<std::size_t>(p)] =
          run_killed(servers, make, data, options, p, processes, p == 0 ? 0 : 6,
                     seed * 100 + static_cast<std::uint64_t>(p));
    });
  threads.clear();
  return ended;
}

TEST(ServedFaults, BitsAcrossKillsAndLostCalls) {
  const TimeLimit limit(300);
  const Dataset data = points(640).shuffle();
  TrainOptions options = options_of(StrategyKind::replicated);
  options.devices = options_for(4, 8).devices;
  TrainObserver nobody;
  Trainer undisturbed(maker<Hidden>(), data, std::nullopt, options);
  const TrainResult expected = undisturbed.run(nobody);
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    LocalServers servers(2, kLong);
    const std::vector<Ended> ended = run_all_killed(
        servers, maker<Hidden>(), data, options_of(StrategyKind::sync_replicas), 4, seed);
    for (const Ended& process : ended) ASSERT_TRUE(process.result) << process.error->what();
    EXPECT_EQ(ended[0].result->digest, expected.digest) << seed;
    EXPECT_EQ(ended[0].result->strategy.dropped, 0U);
    EXPECT_EQ(ended[0].result->steps, expected.steps);
  }
}

TEST(ServedFaults, PushesOfKilledWorkers) {
  const TimeLimit limit(300);
  std::uint64_t repeated = 0;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    TrainOptions options = options_of(StrategyKind::async);
    options.strategy.max_staleness = seed % 2 == 0 ? 2 : -1;
    LocalServers servers(2, kLong);
    const std::vector<Ended> ended =
        run_all_killed(servers, maker<Linear>(), points(640).shuffle(), options, 4, seed);
    for (const Ended& process : ended) ASSERT_TRUE(process.result) << process.error->what();
    for (int s = 0; s < 2; ++s) {
      const ServerFigures figures = servers.at(s).figures("life 0 of 0");
      EXPECT_EQ(figures.applied + figures.dropped, 640U * 3 / 8) << "server " << s;
      EXPECT_EQ(figures.applied, ended[0].result->strategy.applied) << "server " << s;
      repeated += figures.repeated;
    }
  }
  EXPECT_GT(repeated, 0U) << "nothing was lost that had come";
}

/// Slow, or gone after some steps.
class Pace : public TrainObserver {
 public:
  Pace(Trainer& trainer, milliseconds each, int stop_at)
      : trainer_(trainer), each_(each), stop_at_(stop_at) {}
  void on_step(const StepReport& /*report*/) override {
    std::this_thread::sleep_for(each_);
    if (++steps_ == stop_at_) trainer_.stop();
  }

 private:
  Trainer& trainer_;
  const milliseconds each_;
  const int stop_at_;
  int steps_ = 0;
};

TrainResult run_paced(LocalServers& servers, const TrainOptions& options, int process,
                      int processes, milliseconds each, int stop_at) {
  const ServedJob job = job_of(servers, process, processes, "of " + std::to_string(process));
  TrainOptions mine = options;
  mine.strategy.served = &job;
  Trainer trainer(maker<Linear>(), points(320).shuffle(), std::nullopt, mine);
  Pace pace(trainer, each, stop_at);
  return trainer.run(pace);
}

// tensorflow#20342: a worker that runs out of data keeps its token, and the others wait for ever.
TEST(KnownHangs, TokenOfAWorkerOutOfData) {
  const TimeLimit limit(60);
  LocalServers servers(2, kLong);
  const TrainOptions options = options_of(StrategyKind::sync_replicas);
  TrainResult chief;
  {
    std::vector<std::jthread> threads;
    for (int p = 0; p < 3; ++p)
      threads.emplace_back([&, p] {
        const TrainResult mine = run_paced(servers, options, p, 3, milliseconds(0), p == 2 ? 4 : 0);
        if (p == 0) chief = mine;
      });
  }
  // 13 batches an epoch of each; the third has made four.
  EXPECT_EQ(chief.strategy.applied + chief.strategy.dropped, 13U * 3 * 2 + 4);
  EXPECT_EQ(chief.steps, (13U * 3 * 2 + 4) / 3);
  EXPECT_TRUE(chief.lost_processes.empty()) << "it left";
}

// tensorflow#24997: the chief ends with its own data, and takes the session from the others.
TEST(KnownHangs, SlowWorker) {
  const TimeLimit limit(60);
  LocalServers servers(1, kLong);
  const TrainOptions options = options_of(StrategyKind::async);
  TrainResult chief;
  {
    std::jthread slow([&] {
      const TrainResult mine = run_paced(servers, options, 1, 2, milliseconds(10), 0);
      EXPECT_EQ(mine.strategy.applied, 20U * 3);
    });
    chief = run_paced(servers, options, 0, 2, milliseconds(0), 0);
  }
  EXPECT_EQ(chief.strategy.applied, 40U * 3);
}

// tensorflow#21305: servers and the chief never end, because a worker does not come back.
TEST(KnownHangs, DeadWorker) {
  const TimeLimit limit(60);
  for (const StrategyKind kind : {StrategyKind::async, StrategyKind::sync_replicas}) {
    LocalServers servers(2, milliseconds(700));
    const TrainOptions options = options_of(kind);
    TrainResult chief;
    {
      std::jthread dies([&] {
        const auto killed = std::make_shared<std::atomic<bool>>(false);
        const ServedJob job = job_of(servers, 1, 2, "of 1", [&](ParameterServer& server) {
          return std::make_shared<Faulty>(server, 7, killed);
        });
        std::jthread killer([&] {
          while (servers.at(0).ended(milliseconds(0)) == std::nullopt && !*killed) {
            std::this_thread::sleep_for(milliseconds(50));
            *killed = true;
          }
        });
        TrainOptions mine = options;
        mine.strategy.served = &job;
        // It may be killed before it has entered.
        const auto train = [&] {
          Trainer trainer(maker<Linear>(), points(320).shuffle(), std::nullopt, mine);
          Pace pace(trainer, milliseconds(50), 0);
          static_cast<void>(trainer.run(pace));
        };
        EXPECT_THROW(train(), Error);
      });
      chief = run_paced(servers, options, 0, 2, milliseconds(1), 0);
    }
    EXPECT_THAT(chief.lost_processes, testing::ElementsAre(1));
    EXPECT_GT(chief.untrained_batches, 0U);
    const std::uint64_t made = chief.strategy.applied + chief.strategy.dropped;
    EXPECT_EQ(made + chief.untrained_batches, 40U * 3) << "all are accounted for";
    for (int s = 0; s < 2; ++s) EXPECT_TRUE(servers.at(s).ended(milliseconds(0))->ok());
  }
}

/// Of the run of the chief "of 0".
void wait_for_steps(LocalServers& servers, std::uint64_t steps) {
  const auto made = [&]() -> std::uint64_t {
    try {
      return servers.at(0).figures("of 0").step;
    } catch (const Error&) {  // it has not begun
      return 0;
    }
  };
  while (made() < steps) std::this_thread::sleep_for(milliseconds(10));
}

TEST(ServedFaults, LostChief) {
  const TimeLimit limit(60);
  LocalServers servers(2, milliseconds(700));
  const TrainOptions options = options_of(StrategyKind::sync_replicas);
  const auto killed = std::make_shared<std::atomic<bool>>(false);
  std::jthread chief([&] {
    const ServedJob job = job_of(servers, 0, 2, "of 0", [&](ParameterServer& server) {
      return std::make_shared<Faulty>(server, 3, killed);
    });
    EXPECT_TRUE(run_process(maker<Linear>(), points(64'000).shuffle(), options, job).error);
  });
  std::jthread killer([&] {
    wait_for_steps(servers, 5);
    *killed = true;
  });
  const ServedJob job = job_of(servers, 1, 2, "of 1");
  const Ended worker = run_process(maker<Linear>(), points(64'000).shuffle(), options, job);
  ASSERT_TRUE(worker.error);
  EXPECT_THAT(worker.error->what(), testing::HasSubstr("the chief was lost"));
}

/// Once `dead`, its beats tell of that at once, and other calls some time later.
class Dying final : public Borrowed {
 public:
  Dying(ParameterServer& server, std::string name, const std::atomic<bool>& dead)
      : Borrowed(server), name_(std::move(name)), dead_(dead) {}
  Status beat(const Trainee& who, const Status& failed) override {
    if (dead_) throw Error(ErrorCode::unavailable, name_ + " was lost");
    return Borrowed::beat(who, failed);
  }

 protected:
  void before() override {
    if (!dead_) return;
    std::this_thread::sleep_for(milliseconds(500));
    throw Error(ErrorCode::unavailable, name_ + " was lost");
  }

 private:
  const std::string name_;
  const std::atomic<bool>& dead_;
};

// A server ends because of another one's end, and a step may wait for it meanwhile.
TEST(ServedFaults, FirstLostServer) {
  const TimeLimit limit(60);
  for (int first = 0; first < 2; ++first) {
    LocalServers servers(2, kLong);
    std::atomic<bool> dead[2]{};
    int number = 0;
    const ServedJob job = job_of(servers, 0, 1, "of 0", [&](ParameterServer& server) {
      const int mine = number++;
      return std::make_shared<Dying>(server, "ps " + std::to_string(mine), dead[mine]);
    });
    std::jthread killer([&] {
      wait_for_steps(servers, 5);
      dead[first] = true;
      std::this_thread::sleep_for(milliseconds(100));
      dead[1 - first] = true;
    });
    const Ended chief = run_process(maker<Linear>(), points(64'000).shuffle(),
                                    options_of(StrategyKind::sync_replicas), job);
    ASSERT_TRUE(chief.error);
    EXPECT_THAT(chief.error->what(),
                testing::StartsWith("ps " + std::to_string(first) + " was lost"));
  }
}

/// So slow that it is not done before it is killed.
class Paced final : public Linear {
 public:
  using Linear::Linear;
  Loss forward(const Batch& batch, const Pass& pass) override {
    std::this_thread::sleep_for(milliseconds(2));
    return Linear::forward(batch, pass);
  }
};

// Servers have what was kept of each, which with async need not be the same pushes.
TEST(ServedFaults, ResumeAfterTheChiefDied) {
  const TimeLimit limit(120);
  const Dataset data = points(6400).shuffle();
  for (int round = 0; round < 3; ++round) {
    const TempFolder folder;
    TrainOptions options = options_of(StrategyKind::async);
    options.checkpoint_every = 20;
    options.checkpoint_folder = folder.path();
    LocalServers servers(2, milliseconds(700));
    const auto killed = std::make_shared<std::atomic<bool>>(false);
    {
      std::vector<std::jthread> workers;
      for (int p = 1; p < 3; ++p)
        workers.emplace_back([&, p] {
          const ServedJob job = job_of(servers, p, 3, "of " + std::to_string(p));
          EXPECT_TRUE(run_process(maker<Paced>(), data, options, job).error);
        });
      workers.emplace_back([&] {
        const ServedJob job = job_of(servers, 0, 3, "of 0", [&](ParameterServer& server) {
          return std::make_shared<Faulty>(server, 5, killed);
        });
        EXPECT_TRUE(run_process(maker<Paced>(), data, options, job).error);
      });
      // While it is written to, or between that. The lock of the folder is there before.
      const auto entries = [&] {
        return std::distance(std::filesystem::directory_iterator(folder.path()), {});
      };
      while (entries() < 2) std::this_thread::sleep_for(milliseconds(1));
      std::this_thread::sleep_for(milliseconds(20 * round));
      *killed = true;
    }
    for (int s = 0; s < 2; ++s) ASSERT_TRUE(servers.at(s).ended(milliseconds(20'000)));
    const std::vector<Ended> ended =
        test::run_job(servers, maker<Paced>(), data, options, 3, "again");
    for (const Ended& process : ended) ASSERT_TRUE(process.result) << process.error->what();
    const std::uint64_t batches = (6400 / 24) * 3 * 3;
    EXPECT_EQ(ended[0].result->steps, batches) << round;
    EXPECT_EQ(servers.at(1).figures("again of 0").step, batches);
  }
}

}  // namespace
}  // namespace penstock::towers
