#include "cluster/hints.h"

#include <array>
#include <string>

#include <nlohmann/json.hpp>

#include "cluster/launchers.h"
#include "cluster/refuse.h"

namespace penstock::cluster {
namespace {

/// A variable that only processes of this launcher have. `size`: the variable with the number of
/// processes, if there is one; if it is 1, the process is alone.
struct Hint {
  const char* variable;
  const char* launcher;
  const char* size = "-";
};

constexpr std::array kHints{
    Hint{"LOCAL_RANK", "torchrun"},
    Hint{"LOCAL_WORLD_SIZE", "torchrun"},
    Hint{"MASTER_ADDR", "torchrun"},
    Hint{"MASTER_PORT", "torchrun"},
    Hint{"TORCHELASTIC_RUN_ID", "torchrun"},
    Hint{"PET_NODE_RANK", "torchrun", "PET_NNODES"},
    Hint{"OMPI_COMM_WORLD_LOCAL_RANK", "Open MPI"},
    Hint{"OMPI_COMM_WORLD_LOCAL_SIZE", "Open MPI"},
    Hint{"PMIX_RANK", "PMIx"},
    Hint{"MPI_LOCALRANKID", "PMI"},
    Hint{"MPI_LOCALNRANKS", "PMI"},
    Hint{"PALS_RANKID", "PALS"},
    Hint{"MV2_COMM_WORLD_RANK", "MVAPICH2", "MV2_COMM_WORLD_SIZE"},
    Hint{"JSM_NAMESPACE_RANK", "jsrun", "JSM_NAMESPACE_SIZE"},
    Hint{"FLUX_TASK_RANK", "Flux", "FLUX_JOB_SIZE"},
    Hint{"HOROVOD_RANK", "horovodrun", "HOROVOD_SIZE"},
    Hint{"JOB_COMPLETION_INDEX", "an Indexed Job of Kubernetes"},
    Hint{"AWS_BATCH_JOB_NODE_INDEX", "AWS Batch", "AWS_BATCH_JOB_NUM_NODES"},
    Hint{"SM_HOSTS", "SageMaker"},
};

/// True for a list of one host in JSON, as SageMaker writes it.
bool lists_one(const std::string& text) {
  const nlohmann::json list = nlohmann::json::parse(text, nullptr, false);
  return list.is_array() && list.size() == 1;
}

}  // namespace

void refuse_hints(const Environment& environment) {
  for (const Hint& hint : kHints) {
    const std::string* value = environment.find(hint.variable);
    if (value == nullptr || environment.number(hint.size, 1) == 1 || lists_one(*value)) continue;
    refuse(said(environment, hint.variable) + " comes from " + hint.launcher +
           ", so this process may be one of several, but no variable gives its rank and the number "
           "of processes: set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, or TF_CONFIG, or give "
           "--cluster");
  }
}

}  // namespace penstock::cluster
