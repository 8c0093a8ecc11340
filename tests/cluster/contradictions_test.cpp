// Launchers and flags that contradict themselves or each other: errors that name both.
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include <penstock/error.h>

#include "cluster/cluster.h"
#include "tests/cluster/launched.h"

namespace penstock::cluster {
namespace {

using test::kMpi;
using test::kSlurm;
using test::kTfCluster;
using test::kTorchrun;
using test::Map;
using test::tf_config;
using test::with;

/// The message of the error that `act` throws; empty if it throws none.
std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
    return error.what();
  }
  return "";
}

struct Refused {
  std::string name;
  Map environment;
  ClusterFlags flags;
  std::vector<std::string> named;  ///< all stand in the message

  friend void PrintTo(const Refused& row, std::ostream* out) { *out << row.name; }
};

std::vector<Refused> refused() {
  const auto tf = [](const std::string& text) { return Map{{"TF_CONFIG", text}}; };
  const auto list = [](const std::string& text) {
    return ClusterFlags{.cluster = text, .rank = 0};
  };
  return {
      {"ranks",
       with(kMpi, {{"RANK", "0"}, {"WORLD_SIZE", "2"}}),
       {},
       {"RANK=0", "OMPI_COMM_WORLD_RANK=1"}},
      {"worlds",
       with(kMpi, {{"RANK", "1"}, {"WORLD_SIZE", "4"}}),
       {},
       {"WORLD_SIZE=4", "OMPI_COMM_WORLD_SIZE=2"}},
      {"exported_before_srun",
       with(kSlurm, {{"RANK", "0"}, {"WORLD_SIZE", "3"}}),
       {},
       {"RANK=0", "SLURM_PROCID=2"}},
      {"pmi_beside_slurm",
       with(kSlurm, {{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}}),
       {},
       {"PMI_RANK=1", "SLURM_PROCID=2"}},
      {"pmix", with(kMpi, {{"PMIX_RANK", "0"}}), {}, {"PMIX_RANK=0", "OMPI_COMM_WORLD_RANK=1"}},
      {"list_and_rank",
       with(tf(tf_config(kTfCluster, R"({"type":"chief"})")), {{"RANK", "1"}, {"WORLD_SIZE", "3"}}),
       {},
       {"TF_CONFIG", "RANK=1"}},
      {"flag_and_rank", kTorchrun, {.rank = 2}, {"--rank 2", "RANK=3"}},
      {"half", {{"RANK", "1"}}, {}, {"RANK=1", "WORLD_SIZE"}},
      {"other_half", {{"WORLD_SIZE", "2"}}, {}, {"WORLD_SIZE=2", "RANK"}},
      {"rank_beyond", {{"RANK", "2"}, {"WORLD_SIZE", "2"}}, {}, {"RANK=2", "WORLD_SIZE=2"}},
      {"local_beyond",
       with(kTorchrun, {{"LOCAL_RANK", "2"}}),
       {},
       {"LOCAL_RANK=2", "LOCAL_WORLD_SIZE=2"}},
      {"local_beyond_all",
       {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "2147483647"}},
       {},
       {"LOCAL_RANK=2147483647", "WORLD_SIZE=2"}},
      {"local_as_many_as_all",
       {{"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "2"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "2"}},
       {},
       {"OMPI_COMM_WORLD_LOCAL_RANK=2", "OMPI_COMM_WORLD_SIZE=2"}},
      {"local_more_than_all",
       with(kTorchrun, {{"LOCAL_WORLD_SIZE", "5"}}),
       {},
       {"LOCAL_WORLD_SIZE=5", "WORLD_SIZE=4"}},
      {"no_number", {{"RANK", "one"}, {"WORLD_SIZE", "2"}}, {}, {"RANK=one"}},
      {"negative", {{"RANK", "-1"}, {"WORLD_SIZE", "2"}}, {}, {"RANK=-1"}},
      {"too_large", {{"RANK", "0"}, {"WORLD_SIZE", "99999999999"}}, {}, {"WORLD_SIZE=9999"}},
      {"more_than_any_job_has",
       {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2147483647"}},
       {},
       {"OMPI_COMM_WORLD_SIZE=2147483647", "1048576 processes"}},
      {"nowhere_to_meet",
       {{"RANK", "0"}, {"WORLD_SIZE", "2"}},
       {},
       {"torchrun", "MASTER_ADDR", "--rendezvous"}},
      {"mpi_on_two_hosts",
       with(kMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}}),
       {},
       {"Open MPI", "--rendezvous"}},
      {"tf_no_json", tf("{\"cluster\":"), {}, {"TF_CONFIG", "JSON", "byte"}},
      {"tf_no_object", tf("[]"), {}, {"TF_CONFIG"}},
      {"tf_endlessly_deep", tf(std::string(100'000, '[')), {}, {"TF_CONFIG"}},
      {"tf_no_task", tf(std::string("{") + kTfCluster + "}"), {}, {"TF_CONFIG", "task"}},
      {"tf_not_listed",
       tf(tf_config(kTfCluster, R"({"type":"worker","index":2})")),
       {},
       {"TF_CONFIG", "worker 2"}},
      {"tf_index",
       tf(tf_config(kTfCluster, R"({"type":"worker","index":-1})")),
       {},
       {"TF_CONFIG", "index"}},
      {"tf_role", tf(tf_config(kTfCluster, R"({"type":"boss"})")), {}, {"boss", "chief, worker"}},
      {"tf_two_chiefs",
       tf(R"({"cluster":{"chief":["a:1"],"master":["b:1"]},"task":{"type":"chief"}})"),
       {},
       {"TF_CONFIG", "chief", "master"}},
      {"tf_gap",
       tf(R"({"cluster":{"worker":{"0":"a:1","2":"b:1"}},"task":{"type":"worker","index":2}})"),
       {},
       {"TF_CONFIG", "cluster.worker", "no member 1", "member 2"}},
      {"tf_only_itself",
       tf(R"({"cluster":{"ps":["a:1"],"worker":{"1":"b:1"}},"task":{"type":"worker","index":1}})"),
       {},
       {"TF_CONFIG", "cluster.worker", "no member 0", "member 1"}},
      {"tf_from_one",
       tf(R"({"cluster":{"worker":{"1":"a:1","2":"b:1"}},"task":{"type":"worker","index":1}})"),
       {},
       {"cluster.worker", "no member 0"}},
      {"tf_named_members",
       tf(R"({"cluster":{"worker":{"first":"a:1"}},"task":{"type":"worker","index":0}})"),
       {},
       {"cluster.worker", "'first'", "numbered from 0"}},
      {"tf_padded_number",
       tf(R"({"cluster":{"worker":{"00":"a:1","01":"b:1"}},"task":{"type":"worker","index":1}})"),
       {},
       {"cluster.worker", "'00'"}},
      {"tf_negative_number",
       tf(R"({"cluster":{"ps":{"-1":"a:1"}},"task":{"type":"ps","index":0}})"),
       {},
       {"cluster.ps", "'-1'"}},
      {"tf_huge_number",
       tf(R"({"cluster":{"worker":{"4000000000":"a:1"}},"task":{"type":"worker","index":0}})"),
       {},
       {"cluster.worker", "no member 0", "member 4000000000"}},
      {"tf_number_beyond_all",
       tf(R"({"cluster":{"worker":{"99999999999999999999":"a:1"}},"task":{"type":"worker"}})"),
       {},
       {"cluster.worker", "'99999999999999999999'"}},
      {"tf_numbered_lists",
       tf(R"({"cluster":{"worker":{"0":["a:1"]}},"task":{"type":"worker","index":0}})"),
       {},
       {"cluster.worker", "not a string"}},
      {"tf_number_twice",
       tf(R"({"cluster":{"worker":{"0":"a:1","0":"b:1"}},"task":{"type":"worker","index":0}})"),
       {},
       {"TF_CONFIG", "0 twice"}},
      {"tf_deep",
       tf("{\"cluster\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}"),
       {},
       {"TF_CONFIG", "deeper than 32 levels"}},
      {"tf_role_twice",
       tf(R"({"cluster":{"worker":["a:1","b:1"],"worker":["a:1"]},"task":{"type":"worker"}})"),
       {},
       {"TF_CONFIG", "worker twice"}},
      {"tf_members_no_list",
       tf(R"({"cluster":{"worker":3},"task":{"type":"worker","index":0}})"),
       {},
       {"TF_CONFIG", "cluster.worker", "must be a list, or numbered from 0"}},
      {"tf_no_members",
       tf(R"({"cluster":{"worker":{}},"task":{"type":"worker","index":0}})"),
       {},
       {"TF_CONFIG", "has no members"}},
      {"tf_cluster_no_object",
       tf(R"({"cluster":["a:1","b:1"],"task":{"type":"worker","index":0}})"),
       {},
       {"TF_CONFIG", "cluster", "must be an object"}},
      {"tf_which_of_them",
       tf(R"({"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker"}})"),
       {},
       {"TF_CONFIG", "no index", "2 members of type worker"}},
      {"tf_null_index",
       tf(R"({"cluster":{"worker":["a:1"]},"task":{"type":"worker","index":null}})"),
       {},
       {"TF_CONFIG", "index"}},
      {"json_gap", {}, list(R"({"worker":{"1":"a:1"}})"), {"--cluster", "worker", "no member 0"}},
      {"two_chiefs", {}, list("chief=a:1,b:1"), {"--cluster", "2 chiefs"}},
      {"unknown_role", {}, list("boss=a:1"), {"--cluster", "boss"}},
      {"no_port", {}, list("a"), {"--cluster", "'a'", "HOST:PORT"}},
      {"bad_port", {}, list("a:0"), {"'a:0'"}},
      {"port_beyond", {}, list("a:65536"), {"'a:65536'"}},
      {"bare_v6", {}, list("fd00::2:1"), {"'fd00::2:1'", "[ ]"}},
      {"url", {}, list("http://a:1"), {"'http://a:1'"}},
      {"twice", {}, list("a:1,a:1"), {"--cluster", "worker 1", "a:1"}},
      {"nobody_trains", {}, list("ps=a:1"), {"--cluster", "no process would train"}},
      {"which_of_them", {}, {.cluster = "a:1,b:1"}, {"--rank"}},
      {"rank_not_listed", {}, {.cluster = "a:1,b:1", .rank = 2}, {"--rank 2", "lists 2"}},
      {"rank_alone", {}, {.rank = 1}, {"--rank", "--cluster"}},
      {"role_alone", {}, {.role = "worker"}, {"--role worker", "--cluster"}},
      {"rendezvous", {}, {.rendezvous = "a:1"}, {"--rendezvous a:1", "grpc://", "etcd://"}},
      {"rendezvous_no_job", {}, {.rendezvous = "etcd://a:1"}, {"etcd://HOST:PORT/JOB"}},
      {"rendezvous_job", {}, {.rendezvous = "etcd://a:1/a/b"}, {"the job's name", "letters"}},
      {"rendezvous_members", {}, {.rendezvous = "etcd://a:1,b/job"}, {"--rendezvous", "'b'"}},
  };
}

class ResolveRefuses : public testing::TestWithParam<Refused> {};

TEST_P(ResolveRefuses, NamingBoth) {
  const Refused& row = GetParam();
  const std::string message = refusal([&] { resolve(Environment(row.environment), row.flags); });
  EXPECT_NE(message, "");
  for (const std::string& name : row.named)
    EXPECT_NE(message.find(name), std::string::npos) << message;
  // Where only launchers speak, the way out is named, and is one.
  const ClusterFlags& flags = row.flags;
  const bool flagged =
      !flags.cluster.empty() || !flags.role.empty() || flags.rank || !flags.rendezvous.empty();
  if (flagged) return;
  EXPECT_NE(message.find("PENSTOCK_ALONE=1"), std::string::npos) << message;
  const Map alone = with(row.environment, {{"PENSTOCK_ALONE", "1"}});
  EXPECT_EQ(resolve(Environment(alone)).source, "PENSTOCK_ALONE");
}

INSTANTIATE_TEST_SUITE_P(Contradictions, ResolveRefuses, testing::ValuesIn(refused()),
                         [](const auto& row) { return row.param.name; });

TEST(Devices, AreDividedAmongTheProcessesOfAHost) {
  const Environment none{{}};
  Cluster cluster;
  EXPECT_EQ(devices_of(cluster, 3, none), (std::vector<int>{0, 1, 2}));
  cluster.local_world = 2;
  cluster.local_rank = 1;
  EXPECT_EQ(devices_of(cluster, 4, none), (std::vector<int>{2, 3}));
  EXPECT_EQ(devices_of(cluster, 0, none), std::vector<int>());
  EXPECT_NE(refusal([&] { devices_of(cluster, 3, none); }).find("CUDA_VISIBLE_DEVICES"),
            std::string::npos);
  // The launcher left each process its own.
  EXPECT_EQ(devices_of(cluster, 1, Environment{{{"CUDA_VISIBLE_DEVICES", "5"}}}),
            (std::vector<int>{0}));
  EXPECT_EQ(devices_of(cluster, 2, Environment{{{"SLURM_GPUS_PER_TASK", "2"}}}),
            (std::vector<int>{0, 1}));
}

TEST(Devices, OfOneTowerIsThatOfTheLocalRank) {
  const Environment none{{}};
  Cluster cluster;
  EXPECT_EQ(own_device(cluster, none), "cuda:0");
  cluster.rank = 7;
  cluster.local_world = 4;
  cluster.local_rank = 3;
  EXPECT_EQ(own_device(cluster, none), "cuda:3");
  EXPECT_EQ(own_device(cluster, Environment{{{"CUDA_VISIBLE_DEVICES", "4,5,6,7"}}}), "cuda:3");
  // The launcher left each process its own.
  EXPECT_EQ(own_device(cluster, Environment{{{"CUDA_VISIBLE_DEVICES", "6"}}}), "cuda:0");
  EXPECT_EQ(own_device(cluster, Environment{{{"SLURM_GPUS_PER_TASK", "1"}}}), "cuda:0");
}

}  // namespace
}  // namespace penstock::cluster
