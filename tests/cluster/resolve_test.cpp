// Which process of a job this one is, by what launchers and flags say.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "cluster/launchers.h"
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

struct Understood {
  std::string name;
  Map environment;
  ClusterFlags flags;
  std::string source;
  Role role;
  int index, rank, world, local_rank, local_world;
  std::string rendezvous;

  friend void PrintTo(const Understood& row, std::ostream* out) { *out << row.name; }
};

std::vector<Understood> understood() {
  const auto tf = [](const char* task) { return Map{{"TF_CONFIG", tf_config(kTfCluster, task)}}; };
  return {
      {"alone", {}, {}, "none", Role::chief, 0, 0, 1, 0, 1, ""},
      {"set_to_nothing",
       {{"TF_CONFIG", ""}, {"RANK", ""}},
       {},
       "none",
       Role::chief,
       0,
       0,
       1,
       0,
       1,
       ""},
      {"tf_chief",
       tf(R"({"type":"chief","index":0})"),
       {},
       "TF_CONFIG",
       Role::chief,
       0,
       0,
       3,
       0,
       2,
       "grpc://a:1"},
      {"tf_worker",
       tf(R"({"type":"worker","index":0})"),
       {},
       "TF_CONFIG",
       Role::worker,
       0,
       1,
       3,
       0,
       1,
       "grpc://a:1"},
      {"tf_second_on_its_host",
       tf(R"({"type":"worker","index":"1"})"),
       {},
       "TF_CONFIG",
       Role::worker,
       1,
       2,
       3,
       1,
       2,
       "grpc://a:1"},
      {"tf_parameter_server",
       tf(R"({"type":"ps","index":0})"),
       {},
       "TF_CONFIG",
       Role::parameter_server,
       0,
       -1,
       3,
       0,
       1,
       "grpc://a:1"},
      {"tf_evaluator_outside",
       tf(R"({"type":"evaluator","index":0})"),
       {},
       "TF_CONFIG",
       Role::evaluator,
       0,
       -1,
       3,
       0,
       1,
       "grpc://a:1"},
      {"tf_evaluator_inside",
       {{"TF_CONFIG",
         R"({"cluster":{"chief":["a:1"],"evaluator":["e:1"]},"task":{"type":"evaluator"}})"}},
       {},
       "TF_CONFIG",
       Role::evaluator,
       0,
       -1,
       1,
       0,
       1,
       "grpc://a:1"},
      {"tf_master",
       {{"TF_CONFIG",
         R"({"cluster":{"master":["a:1"],"worker":["b:1"]},"task":{"type":"master","index":0}})"}},
       {},
       "TF_CONFIG",
       Role::chief,
       0,
       0,
       2,
       0,
       1,
       "grpc://a:1"},
      {"tf_worker_0_is_chief",
       {{"TF_CONFIG",
         R"({"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":0}})"}},
       {},
       "TF_CONFIG",
       Role::worker,
       0,
       0,
       2,
       0,
       1,
       "grpc://a:1"},
      {"torchrun", kTorchrun, {}, "torchrun", Role::worker, 2, 3, 4, 1, 2, "grpc://node1:29500"},
      {"torchrun_that_listens_itself",
       with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"MASTER_ADDR", "fd00::2"}}),
       {},
       "torchrun",
       Role::worker,
       2,
       3,
       4,
       1,
       2,
       "grpc://[fd00::2]:29501"},
      {"torchrun_of_one",
       {{"RANK", "0"}, {"WORLD_SIZE", "1"}},
       {},
       "torchrun",
       Role::chief,
       0,
       0,
       1,
       0,
       1,
       ""},
      {"open_mpi_on_one_host",
       kMpi,
       {},
       "Open MPI",
       Role::worker,
       0,
       1,
       2,
       1,
       2,
       "grpc://127.0.0.1:20055"},
      {"open_mpi_on_two",
       with(kMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}}),
       {.rendezvous = "grpc://e:2379"},
       "Open MPI",
       Role::worker,
       0,
       1,
       2,
       0,
       1,
       "grpc://e:2379"},
      {"mpirun_below_slurm",
       with(kSlurm, kMpi),
       {},
       "Open MPI",
       Role::worker,
       0,
       1,
       2,
       1,
       2,
       "grpc://127.0.0.1:20055"},
      {"torchrun_below_mpirun",
       with(with(kMpi, kTorchrun), {{"TORCHELASTIC_RUN_ID", "x"}}),
       {},
       "torchrun",
       Role::worker,
       2,
       3,
       4,
       1,
       2,
       "grpc://node1:29500"},
      {"pmi",
       {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "1"}},
       {.rendezvous = "grpc://a:1"},
       "PMI",
       Role::chief,
       0,
       0,
       2,
       0,
       1,
       "grpc://a:1"},
      {"slurm", kSlurm, {}, "Slurm", Role::worker, 1, 2, 3, 0, 1, "grpc://node08:21350"},
      {"shell_of_an_allocation",
       {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}},
       {},
       "none",
       Role::chief,
       0,
       0,
       1,
       0,
       1,
       ""},
      {"list_below_slurm",
       with(kSlurm, tf(R"({"type":"chief","index":0})")),
       {},
       "TF_CONFIG",
       Role::chief,
       0,
       0,
       3,
       0,
       2,
       "grpc://a:1"},
      {"flags",
       {},
       {.cluster = "chief=a:1;worker=b:1,c:1;ps=d:1", .role = "worker", .rank = 1},
       "flags",
       Role::worker,
       1,
       2,
       3,
       0,
       1,
       "grpc://a:1"},
      {"flags_without_roles",
       {},
       {.cluster = "a:1,b:1", .rank = 0},
       "flags",
       Role::worker,
       0,
       0,
       2,
       0,
       1,
       "grpc://a:1"},
      {"flags_as_json",
       {},
       {.cluster = R"({"worker":["[::1]:1"]})"},
       "flags",
       Role::worker,
       0,
       0,
       1,
       0,
       1,
       ""},
      {"evaluator_by_itself",
       {},
       {.role = "evaluator"},
       "flags",
       Role::evaluator,
       0,
       -1,
       0,
       0,
       1,
       ""},
      {"sources_that_agree",
       with(kMpi, {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "5"}}),
       {},
       "torchrun",
       Role::worker,
       0,
       1,
       2,
       0,
       1,
       "grpc://a:5"},
  };
}

class Resolve : public testing::TestWithParam<Understood> {};

TEST_P(Resolve, SaysWhoTheProcessIs) {
  const Understood& row = GetParam();
  const Cluster cluster = resolve(Environment(row.environment), row.flags);
  EXPECT_EQ(cluster.source, row.source);
  EXPECT_EQ(cluster.role, row.role);
  EXPECT_EQ(cluster.index, row.index);
  EXPECT_EQ(cluster.rank, row.rank);
  EXPECT_EQ(cluster.world, row.world);
  EXPECT_EQ(cluster.local_rank, row.local_rank);
  EXPECT_EQ(cluster.local_world, row.local_world);
  EXPECT_EQ(cluster.rendezvous, row.rendezvous);
  int trainers = 0;
  for (const Peer& peer : cluster.peers)
    trainers += peer.role == Role::chief || peer.role == Role::worker;
  EXPECT_EQ(trainers, row.world);
  EXPECT_NE(describe(cluster).find(name_of(row.role)), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Sources, Resolve, testing::ValuesIn(understood()),
                         [](const auto& row) { return row.param.name; });

TEST(Secrets, OfOpenMpiAlone) {
  const char* const name = "OMPI_MCA_orte_precondition_transports";
  const Environment mpi(with(kMpi, {{name, "e05253263027142e-6594b005bef460a5"}}));
  EXPECT_EQ(secret_of_launcher(mpi, resolve(mpi)), "e05253263027142e-6594b005bef460a5");
  EXPECT_EQ(secret_of_launcher(Environment(kMpi), resolve(Environment(kMpi))), "");
  const Environment torchrun(with(kTorchrun, {{name, "e0525326"}}));
  EXPECT_EQ(secret_of_launcher(torchrun, resolve(torchrun)), "");
}

TEST(OneHost, HasSoManyThatCompute) {
  const std::string cluster =
      R"("cluster":{"chief":["a:1"],"worker":["b:1","a:2"],"ps":["a:3"],"evaluator":["b:2"]})";
  for (const auto& [task, expected] : {std::pair(R"({"type":"chief","index":0})", 2),
                                       std::pair(R"({"type":"worker","index":0})", 2),
                                       std::pair(R"({"type":"worker","index":1})", 2),
                                       std::pair(R"({"type":"evaluator","index":0})", 2)})
    EXPECT_EQ(resolve(Environment({{"TF_CONFIG", tf_config(cluster, task)}})).computing_here(),
              expected)
        << task;
  EXPECT_EQ(resolve(Environment(kTorchrun)).computing_here(), 2) << "as the launcher says";
  EXPECT_EQ(resolve(Environment({})).computing_here(), 1);
}

TEST(OneHost, IsWhereRanksMeetOnLoopback) {
  Cluster cluster;
  for (const auto& [rendezvous, expected] :
       {std::pair("", true), std::pair("grpc://127.0.0.1:5", true),
        std::pair("grpc://localhost:5", true), std::pair("grpc://[::1]:5", true),
        std::pair("etcd://127.0.0.1:2379/job", true), std::pair("grpc://10.0.0.1:5", false),
        std::pair("grpc://localhost.example:5", false), std::pair("etcd://a:1,b:1/job", false)}) {
    cluster.rendezvous = rendezvous;
    EXPECT_EQ(cluster.is_on_one_host(), expected) << rendezvous;
  }
}

}  // namespace
}  // namespace penstock::cluster
