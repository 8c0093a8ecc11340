// A parameter server refuses at once what the chief of its job refuses, and only that.
#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cluster/free_address.h"
#include "tests/cluster/train_ranks.h"
#include "tests/support/program.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace {

using test::Outcome;
using test::Program;
using test::TempFolder;
using test::TimeLimit;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

constexpr const char* kOneHost = "chief=127.0.0.1:CHIEF;worker=127.0.0.1:1;ps=127.0.0.1:PS";

/// Runs `penstock train` as `role` of a job with a chief, a worker and a parameter server. A word
/// DATA is 37 records.
Outcome train(const std::string& role, const Words& more, std::string cluster = kOneHost) {
  const TempFolder folder;
  const std::string data = test::write_cifar(folder, 37);
  const std::vector<std::string> addresses = test::free_addresses(2);
  const auto put = [&](const std::string& word, const std::string& address) {
    cluster.replace(cluster.find(word), word.size(), address.substr(address.find(':') + 1));
  };
  put("CHIEF", addresses[0]);
  put("PS", addresses[1]);
  Words flags{"train", "--quiet", "--cluster", cluster, "--role", role, "--join-timeout", "1"};
  for (const std::string& word : more) flags.push_back(word == "DATA" ? data : word);
  return Program(flags).wait(30);
}

struct Refused {
  const char* name;
  Words flags;
  const char* text;
  friend void PrintTo(const Refused& row, std::ostream* out) { *out << row.name; }
};

class ServedRefusals : public testing::TestWithParam<Refused> {};

TEST_P(ServedRefusals, AreThoseOfTheChief) {
  const TimeLimit limit(60);
  for (const char* role : {"ps", "chief"}) {
    const Outcome refused = train(role, GetParam().flags);
    EXPECT_EQ(refused.code, 2) << role << ": " << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(GetParam().text)) << role;
  }
}

Words cifar(Words more) {
  Words flags{"--model", "cifar10", "--data", "DATA"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

INSTANTIATE_TEST_SUITE_P(
    Of, ServedRefusals,
    testing::Values(
        Refused{"model", {"--model", "nosuch", "--data", "DATA"}, "--model"},
        Refused{"columns", {"--model", "wide_deep", "--data", "DATA"}, "--columns"},
        Refused{"no_data", {"--model", "cifar10"}, "training needs data to train on (--data)"},
        Refused{"strategy", cifar({"--strategy", "nosuch"}), "no strategy nosuch"},
        Refused{"several_independent", cifar({"--strategy", "independent"}), "is for one process"},
        Refused{"model_parallel", cifar({"--strategy", "model_parallel"}), "is for one process"},
        Refused{"variable_update", cifar({"--variable-update", "nosuch"}), "--variable-update"},
        Refused{"without_servers", cifar({"--variable-update", "replicated"}),
                "must not have parameter servers"},
        Refused{"all_reduce", cifar({"--variable-update", "collective_all_reduce"}),
                "must not have parameter servers"},
        Refused{"horovod", cifar({"--variable-update", "horovod"}),
                "must not have parameter servers"},
        Refused{"another_strategy",
                cifar({"--variable-update", "parameter_server", "--strategy", "spread"}),
                "sync_replicas or async"},
        Refused{"not_async",
                cifar({"--variable-update", "distributed_replicated", "--strategy", "async"}),
                "--strategy sync_replicas in such a job"},
        Refused{"deterministic", cifar({"--strategy", "async", "--deterministic"}),
                "are not deterministic"},
        Refused{"virtual_towers", cifar({"--strategy", "async", "--virtual-towers", "3"}),
                "3 virtual towers on 2 devices"},
        Refused{"feed", cifar({"--strategy", "sync_replicas", "--feed", "split"}),
                "feed per_tower"},
        Refused{"early_stop",
                cifar({"--strategy", "async", "--eval-data", "DATA", "--early-stop", "2"}),
                "early stopping is not supported"},
        Refused{"aggregate", cifar({"--strategy", "async", "--aggregate", "2"}), "--aggregate"},
        Refused{"precision", cifar({"--strategy", "async", "--precision", "bf16"}),
                "compute in f32"},
        Refused{"compress", cifar({"--compress", "bf16", "--deterministic"}), "--compress"},
        Refused{"optimizer", cifar({"--optimizer", "bogus"}), "optimizer"},
        Refused{"schedule", cifar({"--schedule", "step:x"}), "schedule"},
        Refused{"bucket", cifar({"--bucket", "3q"}), "--bucket"},
        Refused{"device", cifar({"--device", "host:x"}), "is not a device"},
        Refused{"eval_device", cifar({"--eval-data", "DATA", "--eval-device", "cuda:x"}),
                "is not a device"},
        Refused{"component", cifar({"--component", "pixels"}), "--component"},
        Refused{"range", cifar({"--data-range", "30:40"}), "--data-range"},
        Refused{"class_weights", cifar({"--class-weights", "1,2"}), "--class-weights"},
        Refused{"batch", cifar({"--strategy", "async", "--batch", "1000"}),
                "are fewer than a batch of 1000"}),
    [](const auto& row) { return std::string(row.param.name); });

struct Accepted {
  const char* name;
  Words flags;
  friend void PrintTo(const Accepted& row, std::ostream* out) { *out << row.name; }
};

class ServedOptions : public testing::TestWithParam<Accepted> {};

TEST_P(ServedOptions, LetTheServerWait) {
  const TimeLimit limit(60);
  const Outcome waited = train("ps", GetParam().flags);
  EXPECT_EQ(waited.code, 75) << waited.err;
  EXPECT_THAT(waited.err, HasSubstr("no chief has begun a run"));
  EXPECT_THAT(waited.err, Not(HasSubstr("warning")));
}

INSTANTIATE_TEST_SUITE_P(Of, ServedOptions,
                         testing::Values(Accepted{"async_by_its_name_elsewhere",
                                                  cifar({"--variable-update", "parameter_server",
                                                         "--strategy", "async", "--batch", "2"})},
                                         Accepted{"nothing_else", cifar({"--batch", "2"})},
                                         // The server's host needs no GPU.
                                         Accepted{"devices_of_other_hosts",
                                                  cifar({"--strategy", "async", "--device",
                                                         "cuda:0,cuda:1", "--precision", "bf16",
                                                         "--batch", "2"})}),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(ServedData, MayBeMissingWhereNoProcessTrains) {
  const TimeLimit limit(60);
  const Words flags{"--model", "cifar10", "--data", "missing.bin", "--strategy", "async"};
  const Outcome chief = train("chief", flags);
  const Outcome here = train("ps", flags);
  EXPECT_EQ(here.code, chief.code) << here.err;
  EXPECT_EQ(here.code, 1) << here.err;
  EXPECT_THAT(here.err, HasSubstr("missing.bin"));
  const Outcome elsewhere =
      train("ps", flags, "chief=chief.example:CHIEF;worker=other.example:1;ps=127.0.0.1:PS");
  EXPECT_EQ(elsewhere.code, 75) << elsewhere.err;
  EXPECT_THAT(elsewhere.err,
              HasSubstr("penstock: warning: this parameter server can't check the data"));
  EXPECT_THAT(elsewhere.err, HasSubstr("missing.bin"));
}

}  // namespace
}  // namespace penstock
