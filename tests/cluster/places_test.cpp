// The place of a process by less usual forms of what launchers say: members by number, and Slurm's
// lists and large numbers.
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "cluster/cluster.h"
#include "tests/cluster/launched.h"

namespace penstock::cluster {
namespace {

using test::kSlurm;
using test::Map;
using test::with;

struct Placed {
  const char* name;
  Map environment;
  ClusterFlags flags;
  int rank, world;
  const char* rendezvous;

  friend void PrintTo(const Placed& row, std::ostream* out) { *out << row.name; }
};

Placed tf(const char* name, const std::string& cluster, const std::string& task, int rank,
          int world, const char* rendezvous) {
  return {name,  {{"TF_CONFIG", R"({"cluster":)" + cluster + R"(,"task":)" + task + "}"}},
          {},    rank,
          world, rendezvous};
}

Placed slurm(const char* name, const Map& more, const char* rendezvous) {
  return {name, with(kSlurm, more), {}, 2, 3, rendezvous};
}

class Place : public testing::TestWithParam<Placed> {};

TEST_P(Place, IsFound) {
  const Placed& row = GetParam();
  const Cluster cluster = resolve(Environment(row.environment), row.flags);
  EXPECT_EQ(cluster.rank, row.rank);
  EXPECT_EQ(cluster.world, row.world);
  EXPECT_EQ(cluster.rendezvous, row.rendezvous);
}

INSTANTIATE_TEST_SUITE_P(
    Of, Place,
    testing::Values(
        tf("two_workers", R"({"worker":{"0":"127.0.0.1:2222","1":"127.0.0.1:2223"}})",
           R"({"type":"worker","index":1})", 1, 2, "grpc://127.0.0.1:2222"),
        tf("numbers_beside_lists",
           R"({"chief":{"0":"a:1"},"worker":["b:1","c:1"],"ps":{"1":"d:2","0":"d:1"}})",
           R"({"type":"worker","index":"0"})", 1, 3, "grpc://a:1"),
        tf("numbered_servers", R"({"worker":["a:1"],"ps":{"1":"d:2","0":"d:1"}})",
           R"({"type":"ps","index":1})", -1, 1, "grpc://a:1"),
        tf("numbers_beyond_nine",
           R"({"worker":{"0":"a:1","1":"b:1","10":"k:1","2":"c:1","3":"d:1","4":"e:1","5":"f:1",)"
           R"("6":"g:1","7":"h:1","8":"i:1","9":"j:1"}})",
           R"({"type":"worker","index":10})", 10, 11, "grpc://a:1"),
        tf("no_number_of_no_members", R"({"worker":{"0":"a:1"},"ps":{}})",
           R"({"type":"worker","index":0})", 0, 1, ""),
        tf("no_index_of_the_only_one", R"({"chief":["a:1"],"worker":["b:1"]})",
           R"({"type":"worker"})", 1, 2, "grpc://a:1"),
        Placed{"an_indexed_job",
               {{"JOB_COMPLETION_INDEX", "1"},
                {"TF_CONFIG",
                 R"({"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":"1"}})"}},
               {},
               1,
               2,
               "grpc://a:1"},
        Placed{"numbers_in_a_flag",
               {},
               {.cluster = R"({"worker":{"1":"b:1","0":"a:1"},"ps":["c:1"]})", .rank = 1},
               1,
               2,
               "grpc://a:1"},
        slurm("two_brackets", {{"SLURM_STEP_NODELIST", "rack[1-2]node[01-03]"}},
              "grpc://rack1node01:21350"),
        slurm("text_behind_brackets", {{"SLURM_STEP_NODELIST", "gpu[2,4-5]-ib.example,cpu1"}},
              "grpc://gpu2-ib.example:21350"),
        slurm("a_plain_name_first", {{"SLURM_STEP_NODELIST", "login,n[08-09]"}},
              "grpc://login:21350"),
        slurm("pmi_of_srun", {{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}}, "grpc://node08:21350"),
        slurm("the_largest_job", {{"SLURM_JOB_ID", "4294967295"}}, "grpc://node08:26193"),
        slurm("a_job_beyond_31_bits", {{"SLURM_JOB_ID", "2147483648"}}, "grpc://node08:23136"),
        slurm("a_job_of_33_bits", {{"SLURM_JOB_ID", "4294967296"}}, "grpc://node08:26224"),
        // A chief, and an evaluator that it does not know of, as two tasks of a step.
        Placed{"a_list_of_one_in_the_first_task",
               with(with(kSlurm, {{"SLURM_PROCID", "0"}}),
                    {{"TF_CONFIG", R"({"cluster":{"chief":["a:1"]},"task":{"type":"chief"}})"}}),
               {},
               0,
               1,
               ""},
        Placed{"an_evaluator_in_another_task",
               with(kSlurm, {{"TF_CONFIG",
                              R"({"cluster":{"chief":["a:1"]},"task":{"type":"evaluator"}})"}}),
               {},
               -1,
               1,
               "grpc://a:1"},
        Placed{"slurm_that_counts_no_nodes",
               {{"SLURM_STEP_ID", "0"},
                {"SLURM_PROCID", "1"},
                {"SLURM_NTASKS", "2"},
                {"SLURM_LOCALID", "1"},
                {"SLURM_JOB_ID", "42"},
                {"SLURM_NODELIST", "n[7]"}},
               {},
               1,
               2,
               "grpc://127.0.0.1:21350"}),
    [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace penstock::cluster
