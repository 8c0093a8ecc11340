// Processes that no launcher counts among others, and those that might be: only the first are alone
// without being told so.
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/error.h>

#include "cluster/cluster.h"
#include "tests/cluster/launched.h"

namespace penstock::cluster {
namespace {

using test::Map;
using test::with;

const Map kAlone{{"PENSTOCK_ALONE", "1"}};
const Map kAllocation{{"SLURM_PROCID", "0"},
                      {"SLURM_NTASKS", "8"},
                      {"SLURM_NNODES", "4"},
                      {"SLURM_JOB_ID", "4294967295"},
                      {"SLURM_JOB_NODELIST", "n[1-4]"},
                      {"SLURM_NODELIST", "n[1-4]"}};

void expect_alone(const Cluster& cluster, const std::string& source) {
  EXPECT_EQ(cluster.role, Role::chief);
  EXPECT_EQ(cluster.rank, 0);
  EXPECT_EQ(cluster.world, 1);
  EXPECT_EQ(cluster.local_world, 1);
  EXPECT_EQ(cluster.rendezvous, "");
  EXPECT_EQ(cluster.source, source);
  EXPECT_EQ(cluster.peers, (std::vector<Peer>{{Role::chief, 0, {}}}));
}

struct Alone {
  const char* name;
  Map environment;
  const char* source = "none";

  friend void PrintTo(const Alone& row, std::ostream* out) { *out << row.name; }
};

class AloneProcess : public testing::TestWithParam<Alone> {};

TEST_P(AloneProcess, IsOneOfOne) {
  expect_alone(resolve(Environment(GetParam().environment)), GetParam().source);
}

INSTANTIATE_TEST_SUITE_P(
    By, AloneProcess,
    testing::Values(
        Alone{"nothing", {}}, Alone{"an_empty_object", {{"TF_CONFIG", "{}"}}},
        Alone{"empty_variables", {{"TF_CONFIG", ""}, {"PMIX_RANK", ""}, {"MASTER_ADDR", ""}}},
        Alone{"zero", {{"PENSTOCK_ALONE", "0"}}}, Alone{"the_shell_of_an_allocation", kAllocation},
        // Slurm numbers shells and batch scripts, too.
        Alone{"an_interactive_step", with(kAllocation, {{"SLURM_STEP_ID", "4294967290"}})},
        Alone{"a_batch_script", with(kAllocation, {{"SLURM_STEP_ID", "4294967291"}})},
        Alone{"a_task_of_an_array",
              {{"SLURM_ARRAY_TASK_ID", "3"}, {"SLURM_ARRAY_TASK_COUNT", "9"}}},
        Alone{"one_of_horovodrun", {{"HOROVOD_RANK", "0"}, {"HOROVOD_SIZE", "1"}}},
        Alone{"one_of_flux", {{"FLUX_TASK_RANK", "0"}, {"FLUX_JOB_SIZE", "1"}}},
        Alone{"one_host_of_sagemaker", {{"SM_HOSTS", R"(["algo-1"])"}}},
        Alone{"said", kAlone, "PENSTOCK_ALONE"},
        Alone{"said_below_mpirun", with(test::kMpi, kAlone), "PENSTOCK_ALONE"},
        Alone{"said_below_slurm", with(test::kSlurm, kAlone), "PENSTOCK_ALONE"},
        Alone{"said_with_torn_variables",
              with({{"RANK", "x"}, {"TF_CONFIG", "{"}, {"SLURM_STEP_ID", "?"}}, kAlone),
              "PENSTOCK_ALONE"}),
    [](const auto& row) { return std::string(row.param.name); });

/// What an error says; empty if there is none.
std::string refusal(const Map& environment, const ClusterFlags& flags = {}) {
  try {
    resolve(Environment(environment), flags);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
    return error.what();
  }
  return "";
}

struct Hinted {
  const char* name;
  Map environment;
  std::vector<std::string> named;

  friend void PrintTo(const Hinted& row, std::ostream* out) { *out << row.name; }
};

class HintedProcess : public testing::TestWithParam<Hinted> {};

TEST_P(HintedProcess, IsRefusedUnlessToldToBeAlone) {
  const Hinted& row = GetParam();
  const std::string message = refusal(row.environment);
  for (const std::string& name : row.named)
    EXPECT_NE(message.find(name), std::string::npos) << name << " in: " << message;
  EXPECT_NE(message.find("PENSTOCK_ALONE=1"), std::string::npos) << message;
  expect_alone(resolve(Environment(with(row.environment, kAlone))), "PENSTOCK_ALONE");
}

INSTANTIATE_TEST_SUITE_P(
    By, HintedProcess,
    testing::Values(
        Hinted{"pmix_alone", {{"PMIX_RANK", "1"}}, {"PMIX_RANK=1", "PMIx"}},
        Hinted{"indexed_job", {{"JOB_COMPLETION_INDEX", "0"}}, {"JOB_COMPLETION_INDEX=0"}},
        Hinted{"indexed_job_and_empty_tf_config",
               {{"JOB_COMPLETION_INDEX", "2"}, {"TF_CONFIG", "{}"}},
               {"JOB_COMPLETION_INDEX=2", "Kubernetes"}},
        Hinted{"sagemaker",
               {{"SM_HOSTS", R"(["algo-1","algo-2"])"}, {"SM_CURRENT_HOST", "algo-2"}},
               {"SM_HOSTS", "SageMaker"}},
        Hinted{"sagemaker_unreadable", {{"SM_HOSTS", "algo-1"}}, {"SM_HOSTS=algo-1"}},
        Hinted{"aws_batch",
               {{"AWS_BATCH_JOB_NODE_INDEX", "1"}, {"AWS_BATCH_JOB_NUM_NODES", "2"}},
               {"AWS_BATCH_JOB_NODE_INDEX=1"}},
        Hinted{"horovodrun", {{"HOROVOD_RANK", "1"}, {"HOROVOD_SIZE", "2"}}, {"HOROVOD_RANK=1"}},
        Hinted{"size_unreadable",
               {{"FLUX_TASK_RANK", "1"}, {"FLUX_JOB_SIZE", "two"}},
               {"FLUX_JOB_SIZE=two"}},
        Hinted{"local_rank", {{"LOCAL_RANK", "1"}}, {"LOCAL_RANK=1"}},
        Hinted{"address_alone", {{"MASTER_ADDR", "node1"}}, {"MASTER_ADDR=node1"}},
        Hinted{"torchrun_on_two_nodes",
               {{"PET_NODE_RANK", "0"}, {"PET_NNODES", "2"}},
               {"PET_NODE_RANK=0"}},
        Hinted{"open_mpi_local", {{"OMPI_COMM_WORLD_LOCAL_RANK", "1"}}, {"OMPI_COMM_WORLD_LOCAL_"}},
        Hinted{"open_mpi_without_size",
               {{"OMPI_COMM_WORLD_RANK", "0"}},
               {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE"}},
        Hinted{"open_mpi_size_empty",
               {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", ""}},
               {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE"}},
        Hinted{"pmi_without_rank", {{"PMI_SIZE", "2"}}, {"PMI_SIZE=2", "PMI_RANK"}},
        Hinted{"pmi_local", {{"MPI_LOCALRANKID", "0"}}, {"MPI_LOCALRANKID=0"}},
        Hinted{"slurm_without_rank",
               {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}},
               {"SLURM_STEP_NUM_TASKS=4", "SLURM_PROCID"}},
        Hinted{"slurm_step_alone", {{"SLURM_STEP_ID", "3"}}, {"SLURM_STEP_ID=3", "SLURM_PROCID"}},
        Hinted{"slurm_step_unreadable",
               with(test::kSlurm, {{"SLURM_STEP_ID", "first"}}),
               {"SLURM_STEP_ID=first"}},
        Hinted{"slurm_job_unreadable",
               with(test::kSlurm, {{"SLURM_JOB_ID", "42a"}}),
               {"SLURM_JOB_ID=42a"}},
        Hinted{"slurm_hosts_unreadable",
               with(test::kSlurm, {{"SLURM_STEP_NODELIST", "node[08-"}}),
               {"SLURM_STEP_NODELIST", "node[08-"}},
        Hinted{"slurm_tasks_unreadable",
               with(test::kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "2(x"}}),
               {"SLURM_STEP_TASKS_PER_NODE=2(x"}},
        Hinted{"slurm_no_such_node",
               with(test::kSlurm, {{"SLURM_NODEID", "2"}}),
               {"SLURM_STEP_TASKS_PER_NODE=2,1", "SLURM_NODEID=2"}},
        Hinted{"slurm_more_here_than_tasks",
               with(test::kSlurm, {{"SLURM_LOCALID", "1"}}),
               {"SLURM_STEP_TASKS_PER_NODE=2,1", "SLURM_LOCALID=1"}},
        Hinted{"slurm_without_hosts",
               {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}},
               {"Slurm", "--rendezvous"}},
        Hinted{"a_list_of_one_in_each_task",
               with(test::kSlurm,
                    {{"TF_CONFIG",
                      R"({"cluster":{"chief":["a:1"]},"task":{"type":"chief","index":0}})"}}),
               {"TF_CONFIG", "SLURM_PROCID=2", "no other member"}},
        Hinted{"sparse_cluster",
               {{"TF_CONFIG",
                 R"({"sparseCluster":{"worker":{},"ps":["a:1"]},"task":{"type":"ps","index":0}})"}},
               {"TF_CONFIG", "sparseCluster", "set cluster"}},
        Hinted{"sparse_cluster_of_a_chief",
               {{"TF_CONFIG",
                 R"({"sparseCluster":{"worker":{},"ps":[]},"task":{"type":"chief","index":0}})"}},
               {"sparseCluster", "all members"}},
        Hinted{"sparse_cluster_beside_another",
               {{"TF_CONFIG",
                 R"({"cluster":{"worker":["a:1"]},"sparseCluster":{"worker":{"0":"a:1"}},)"
                 R"("task":{"type":"worker","index":0}})"}},
               {"sparseCluster"}},
        Hinted{
            "sparse_cluster_alone", {{"TF_CONFIG", R"({"sparseCluster":{}})"}}, {"sparseCluster"}}),
    [](const auto& row) { return std::string(row.param.name); });

class TaskWithoutCluster : public testing::TestWithParam<const char*> {};

TEST_P(TaskWithoutCluster, IsNoJobOfOne) {
  const std::string task = std::string(R"("task":{"type":")") + GetParam() + R"(","index":0})";
  for (const std::string& config :
       {"{" + task + "}", R"({"cluster":{},)" + task + "}", R"({"cluster":null,)" + task + "}",
        R"({"environment":"cloud",)" + task + "}"}) {
    const Map environment{{"TF_CONFIG", config}};
    const std::string message = refusal(environment);
    for (const std::string& name : {std::string("TF_CONFIG"), "type " + std::string(GetParam()),
                                    std::string("set cluster"), std::string("PENSTOCK_ALONE=1")})
      EXPECT_NE(message.find(name), std::string::npos) << config << ": " << message;
    expect_alone(resolve(Environment(with(environment, kAlone))), "PENSTOCK_ALONE");
  }
}

INSTANTIATE_TEST_SUITE_P(Of, TaskWithoutCluster,
                         testing::Values("ps", "chief", "master", "evaluator", "worker", "boss"),
                         [](const auto& row) { return std::string(row.param); });

TEST(Alone, ContradictsAList) {
  const std::string listed = refusal(kAlone, {.cluster = "a:1,b:1", .rank = 0});
  EXPECT_NE(listed.find("PENSTOCK_ALONE=1"), std::string::npos) << listed;
  EXPECT_NE(listed.find("--rank"), std::string::npos) << listed;
  const std::string one = refusal(kAlone, {.cluster = "a:1"});
  EXPECT_NE(one.find("--cluster"), std::string::npos) << one;
  for (const char* value : {"yes", "2", "true", " 1"}) {
    const std::string other = refusal({{"PENSTOCK_ALONE", value}});
    EXPECT_NE(other.find(std::string("PENSTOCK_ALONE=") + value), std::string::npos) << other;
  }
}

TEST(Alone, MayBeAnEvaluator) {
  const Cluster evaluator = resolve(Environment(with(test::kSlurm, kAlone)), {.role = "evaluator"});
  EXPECT_EQ(evaluator.role, Role::evaluator);
  EXPECT_EQ(evaluator.rank, -1);
}

}  // namespace
}  // namespace penstock::cluster
