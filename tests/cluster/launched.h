// The variables that launchers set, for tests.
#pragma once

#include <string>

#include "cluster/environment.h"

namespace penstock::cluster::test {

using Map = Environment::Map;

inline const char* const kTfCluster =
    R"("cluster":{"chief":["a:1"],"worker":["b:1","a:2"],"ps":["c:1"]})";
inline std::string tf_config(const std::string& cluster, const std::string& task) {
  return "{" + cluster + ",\"task\":" + task + "}";
}

inline const Map kMpi{{"OMPI_COMM_WORLD_RANK", "1"},
                      {"OMPI_COMM_WORLD_SIZE", "2"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                      {"PMIX_RANK", "1"},
                      {"PMIX_NAMESPACE", "7"}};
inline const Map kTorchrun{{"RANK", "3"},
                           {"WORLD_SIZE", "4"},
                           {"LOCAL_RANK", "1"},
                           {"LOCAL_WORLD_SIZE", "2"},
                           {"MASTER_ADDR", "node1"},
                           {"MASTER_PORT", "29500"}};
inline const Map kSlurm{{"SLURM_STEP_ID", "0"},
                        {"SLURM_PROCID", "2"},
                        {"SLURM_NTASKS", "3"},
                        {"SLURM_STEP_NUM_TASKS", "3"},
                        {"SLURM_LOCALID", "0"},
                        {"SLURM_NODEID", "1"},
                        {"SLURM_STEP_NUM_NODES", "2"},
                        {"SLURM_STEP_TASKS_PER_NODE", "2,1"},
                        {"SLURM_STEP_NODELIST", "node[08-09]"},
                        {"SLURM_JOB_ID", "42"}};

inline Map with(Map map, const Map& more) {
  for (const auto& [name, value] : more) map[name] = value;
  return map;
}

}  // namespace penstock::cluster::test
