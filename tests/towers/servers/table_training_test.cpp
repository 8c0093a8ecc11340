// Models with tables on parameter servers: rows go there and back, and what comes of it is known.
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>

#include "tests/support/files.h"
#include "tests/support/time_limit.h"
#include "tests/towers/arrays.h"
#include "tests/towers/bags.h"
#include "tests/towers/fake_gpu.h"
#include "tests/towers/servers/local_job.h"
#include "tests/towers/twins.h"
#include "towers/checkpoint/checkpoint.h"
#include "towers/gpu/gpu.h"

namespace penstock::towers {
namespace table_training_test {

using penstock::test::TempFolder;
using penstock::test::TimeLimit;
using std::chrono::milliseconds;
using test::bags;
using test::bags_maker;
using test::Ended;
using test::expect_near;
using test::LocalServers;
using test::options_for;
using test::run_job;

constexpr milliseconds kPeerTimeout{20'000};  // nobody is lost on a slow machine
constexpr std::int64_t kRows = 3000;

TrainOptions options_of(StrategyKind kind, const std::string& optimizer, float clip_norm) {
  TrainOptions options = options_for(1, 8);
  options.epochs = 2;
  options.strategy.kind = kind;
  options.strategy.update = {make_optimizer(optimizer), Schedule::parse("constant:0.5"), clip_norm};
  return options;
}

TEST(TableTraining, BySgdHasTheBitsOfReplicated) {
  const TimeLimit limit(300);
  struct Case {
    float clip_norm;
    int servers, processes, towers;
  };
  for (const Case& one : {Case{0, 1, 2, 1}, Case{0, 2, 2, 2}, Case{0.05F, 2, 2, 1}}) {
    SCOPED_TRACE(std::to_string(one.servers) + " servers, clipped to " +
                 std::to_string(one.clip_norm));
    TrainOptions options = options_of(StrategyKind::sync_replicas, "sgd", one.clip_norm);
    options.devices = options_for(one.towers, 8).devices;
    const Dataset data = bags(320, kRows).shuffle();
    TrainOptions whole = options;
    whole.devices = options_for(one.processes * one.towers, 8).devices;
    whole.strategy.kind = StrategyKind::replicated;
    TrainObserver nobody;
    Trainer trainer(bags_maker(kRows), data, std::nullopt, whole);
    const TrainResult expected = trainer.run(nobody);
    EXPECT_LT(expected.losses.back(), expected.losses.front());
    LocalServers servers(one.servers, kPeerTimeout);
    const std::vector<Ended> ended =
        run_job(servers, bags_maker(kRows), data, options, one.processes);
    for (const Ended& process : ended) ASSERT_TRUE(process.result) << process.error->what();
    EXPECT_EQ(ended[0].result->digest, expected.digest);
    EXPECT_EQ(ended[0].result->steps, expected.steps);
  }
}

/// One replica makes the updates that one process makes, as its gradients are clipped there.
TEST(TableTraining, AsyncOfOneReplica) {
  const TimeLimit limit(300);
  for (const float clip_norm : {0.0F, 0.05F}) {
    TrainOptions options = options_of(StrategyKind::async, "sgd", clip_norm);
    TrainOptions alone = options;
    alone.strategy.kind = StrategyKind::replicated;
    TrainObserver nobody;
    Trainer trainer(bags_maker(kRows), bags(160, kRows), std::nullopt, alone);
    LocalServers servers(2, kPeerTimeout);
    const std::vector<Ended> ended =
        run_job(servers, bags_maker(kRows), bags(160, kRows), options, 1);
    ASSERT_TRUE(ended[0].result) << ended[0].error->what();
    EXPECT_EQ(ended[0].result->digest, trainer.run(nobody).digest);
  }
}

/// Counts what tables cost on their way, and refuses whole ones.
class CountsRows final : public test::Borrowed {
 public:
  struct Count {
    std::mutex mutex{};
    std::set<std::int64_t> pulled{}, pushed{};
    std::size_t most = 0;
  };
  CountsRows(ParameterServer& server, Count& count) : Borrowed(server), count_(count) {}

  Pushed push(const Trainee& who, const Push& push, Takers& taker) override {
    for (const Piece& piece : push.pieces)
      if (piece.rows != nullptr) note(count_.pushed, {piece.rows, piece.rows + piece.row_count});
    return Borrowed::push(who, push, taker);
  }
  void pull_rows(const Trainee& who, std::uint32_t variable, const std::vector<std::int64_t>& rows,
                 float* values, std::size_t count) override {
    note(count_.pulled, rows);
    Borrowed::pull_rows(who, variable, rows, values, count);
  }

 private:
  void note(std::set<std::int64_t>& all, const std::vector<std::int64_t>& rows) {
    const std::lock_guard lock(count_.mutex);
    all.insert(rows.begin(), rows.end());
    count_.most = std::max(count_.most, rows.size());
  }
  Count& count_;
};

TEST(TableTraining, NamedRows) {
  const TimeLimit limit(300);
  const Dataset data = bags(64, kRows);
  std::set<std::int64_t> named;
  Iterator iterator = data.iterate();
  for (const Element& element : iterator)
    for (const char* name : {"first", "second"})
      for (const std::int64_t id : element[name].values<std::int64_t>())
        if (id >= 0) named.insert(id);
  for (const char* optimizer : {"sgd", "momentum:0.9", "adam"}) {
    SCOPED_TRACE(optimizer);
    TrainOptions options = options_of(StrategyKind::async, optimizer, 0);
    LocalServers servers(1, kPeerTimeout);
    CountsRows::Count count;
    const ServedJob job = test::job_of(servers, 0, 1, "counted", [&](ParameterServer& server) {
      return std::make_shared<CountsRows>(server, count);
    });
    options.strategy.served = &job;
    Trainer trainer(bags_maker(kRows), data, std::nullopt, options);
    const auto table = trainer.variables().of(0)[0]->value.values();
    const std::vector<float> before(table.begin(), table.end());
    TrainObserver nobody;
    static_cast<void>(trainer.run(nobody));
    EXPECT_EQ(count.pulled, named);
    EXPECT_EQ(count.pushed, named);
    EXPECT_LE(count.most, 2U * 8 * test::kMostIds) << "those of one step";
    for (std::int64_t row = 0; row < kRows; ++row) {
      const auto at = static_cast<std::size_t>(row) * 3;
      const bool same = std::equal(before.begin() + static_cast<std::ptrdiff_t>(at),
                                   before.begin() + static_cast<std::ptrdiff_t>(at) + 3,
                                   table.begin() + static_cast<std::ptrdiff_t>(at));
      EXPECT_EQ(same, !named.contains(row)) << "row " << row;
    }
  }
}

TEST(TableTraining, GoesOnFromACheckpoint) {
  const TimeLimit limit(300);
  const auto trained = [&](std::uint64_t steps, const std::string& folder) {
    TrainOptions options = options_of(StrategyKind::async, "adam", 0);
    options.max_steps = steps;
    options.checkpoint_folder = folder;
    LocalServers servers(2, kPeerTimeout);
    const std::vector<Ended> ended =
        run_job(servers, bags_maker(kRows), bags(160, kRows), options, 1);
    EXPECT_TRUE(ended[0].result) << ended[0].error->what();
    return ended[0].result ? ended[0].result->digest : 0;
  };
  const TempFolder folder;
  trained(7, folder.path());
  EXPECT_EQ(trained(30, folder.path()), trained(30, ""));
}

TEST(TableTraining, TowersOnGpus) {
  const TimeLimit limit(300);
  const auto trained = [&](const GpuLibraries* libraries, CountsRows::Count& count) {
    TrainOptions options = options_of(StrategyKind::async, "sgd", 0.1F);
    options.libraries = libraries;
    LocalServers servers(2, kPeerTimeout);
    const ServedJob job = test::job_of(servers, 0, 1, "one", [&](ParameterServer& server) {
      return std::make_shared<CountsRows>(server, count);
    });
    options.strategy.served = &job;
    Trainer trainer(bags_maker(kRows), bags(160, kRows), bags(30, kRows), options);
    TrainObserver nobody;
    const TrainResult result = trainer.run(nobody);
    const Array table =
        on_host(trainer.variables().of(0)[0]->gpu, trainer.variables().of(0)[0]->value);
    EXPECT_EQ(result.evaluation->rows, 30);
    return std::vector<float>(table.values().begin(), table.values().end());
  };
  CountsRows::Count here, there;
  const std::vector<float> expected = trained(nullptr, here);
  expect_near(trained(&test::fake_gpu(), there), expected, 1e-5, "table");
  EXPECT_EQ(there.pulled, here.pulled);
  EXPECT_EQ(there.pushed, here.pushed);
}

TEST(TableTraining, UnknownId) {
  const TimeLimit limit(60);
  TrainOptions options = options_of(StrategyKind::async, "sgd", 0);
  LocalServers servers(1, kPeerTimeout);
  const std::vector<Ended> ended =
      run_job(servers, bags_maker(kRows / 2), bags(64, kRows), options, 1);
  ASSERT_TRUE(ended[0].error);
  EXPECT_NE(std::string(ended[0].error->what()).find("embedding_bag: id "), std::string::npos)
      << ended[0].error->what();
}

}  // namespace table_training_test
}  // namespace penstock::towers
