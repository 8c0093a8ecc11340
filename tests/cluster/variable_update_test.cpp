// The names of TensorFlow's CNN benchmarks: each does what ours does that it stands for.
#include <ostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cluster/train_ranks.h"
#include "tests/support/program.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace {

using test::flags_of;
using test::Outcome;
using test::Program;
using test::run;
using test::TempFolder;
using test::TimeLimit;
using test::write_cifar;
using testing::HasSubstr;
using Words = std::vector<std::string>;

TEST(VariableUpdate, IsOneOfOurStrategies) {
  const TimeLimit limit(110);
  const TempFolder folder;
  const std::string data = write_cifar(folder, 29);
  for (const int processes : {1, 2}) {
    const nlohmann::json expected = run(processes, flags_of(data, {}));
    ASSERT_FALSE(expected.is_null());
    for (const char* name : {"parameter_server", "replicated", "distributed_replicated",
                             "distributed_all_reduce", "collective_all_reduce", "horovod"}) {
      const nlohmann::json found = run(processes, flags_of(data, {"--variable-update", name}));
      ASSERT_FALSE(found.is_null()) << name;
      EXPECT_EQ(found["variables_digest"], expected["variables_digest"]) << name;
    }
  }
}

TEST(VariableUpdate, OfParameterServersMayBeAsync) {
  const TimeLimit limit(60);
  const TempFolder folder;
  Words flags = flags_of(write_cifar(folder, 29),
                         {"--variable-update", "parameter_server", "--strategy", "async"});
  std::erase(flags, "--deterministic");
  const Outcome outcome = Program(flags).wait(50);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_GT(outcome.json()["steps"], 0U);
}

TEST(VariableUpdate, IndependentTowers) {
  const TimeLimit limit(110);
  const TempFolder folder;
  const std::string data = write_cifar(folder, 24);
  const auto trained = [&](int towers, const Words& more) {
    Words flags = flags_of(data, {"--device", test::devices(towers), "--eval-data", data});
    flags.insert(flags.end(), more.begin(), more.end());
    const Outcome outcome = Program(flags).wait(60);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? outcome.json() : nlohmann::json();
  };
  // Tower 0 of two has every other batch: those of a run that is given no others.
  const nlohmann::json both = trained(2, {"--variable-update", "independent"});
  const nlohmann::json exchanged = trained(2, {});
  ASSERT_FALSE(both.is_null() || exchanged.is_null());
  EXPECT_NE(both["variables_digest"], exchanged["variables_digest"]);
  EXPECT_EQ(both["steps"], exchanged["steps"]);
  EXPECT_EQ(both["variables_digest"],
            trained(2, {"--strategy", "independent"})["variables_digest"]);
  EXPECT_EQ(trained(1, {"--variable-update", "independent"})["variables_digest"],
            trained(1, {})["variables_digest"]);
  EXPECT_TRUE(both["test_loss"].is_number());
}

struct Refused {
  const char* name;
  Words flags;
  std::vector<std::string> texts;
  friend void PrintTo(const Refused& row, std::ostream* out) { *out << row.name; }
};

class VariableUpdates : public testing::TestWithParam<Refused> {};

TEST_P(VariableUpdates, AreRefusedWhereTheyCantBe) {
  const TimeLimit limit(60);
  const TempFolder folder;
  const Outcome refused = Program(flags_of(write_cifar(folder, 10), GetParam().flags)).wait(30);
  EXPECT_EQ(refused.code, 2) << refused.err;
  for (const std::string& text : GetParam().texts) EXPECT_THAT(refused.err, HasSubstr(text));
}

const Words kServers{"--cluster", "chief=a:1;worker=b:1;ps=c:1", "--role", "chief"};
Words in_job(Words flags, const Words& job) {
  flags.insert(flags.end(), job.begin(), job.end());
  return flags;
}

INSTANTIATE_TEST_SUITE_P(
    Of, VariableUpdates,
    testing::Values(
        Refused{"unknown",
                {"--variable-update", "nccl"},
                {"--variable-update", "parameter_server, replicated, distributed_replicated",
                 "collective_all_reduce", "horovod"}},
        Refused{"another",
                {"--variable-update", "replicated", "--strategy", "async"},
                {"--variable-update", "--strategy replicated", "--strategy async"}},
        Refused{"async_elsewhere",
                {"--variable-update", "distributed_replicated", "--strategy", "async"},
                {"--strategy spread in such a job", "--strategy async"}},
        Refused{"async_without_servers",
                {"--variable-update", "parameter_server", "--strategy", "async", "--cluster",
                 "a:1,b:1", "--rank", "0"},
                {"list some under the role ps"}},
        Refused{"no_servers",
                in_job({"--variable-update", "distributed_all_reduce"}, kServers),
                {"must not have parameter servers"}},
        Refused{"several_independent",
                {"--variable-update", "independent", "--cluster", "a:1,b:1", "--rank", "0"},
                {"start each alone"}},
        Refused{"kept",
                {"--strategy", "independent", "--device", "host:0,host:1", "--checkpoint", "kept"},
                {"keep no checkpoints"}}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace penstock
