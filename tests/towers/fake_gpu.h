// NVIDIA's libraries as plain loops over host memory, and kernels as their CPU twins, so that what
// towers on GPUs do is shown where none is: towers on host devices use them as if they were.
#pragma once

#include <cstddef>
#include <vector>

#include "towers/gpu/libraries.h"

namespace penstock::towers::test {

/// Computed before the call returns, behind what the stream was asked for. NCCL's calls
/// must be those of all ranks in one group.
const GpuLibraries& fake_gpu();

/// What goes wrong with the fake's NCCL from now on.
struct NcclTrouble {
  int reports = -1;  ///< this rank's communicator reports an error once it takes part
  int refuses = -1;  ///< this rank's call returns an error
  int hangs = -1;    ///< this rank's stream never gets through, until the abort
};
void set_nccl_trouble(const NcclTrouble& trouble);
/// The values of each exchange that went through since the last call, in order.
std::vector<std::size_t> nccl_exchanges();

}  // namespace penstock::towers::test
