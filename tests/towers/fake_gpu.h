// Fakes of NVIDIA's libraries: plain loops over host memory, with CPU code in place of kernels.
// Towers on host devices use them like a GPU's, so that tests of GPU towers need no GPU.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "towers/gpu/libraries.h"

namespace penstock::towers::test {

/// Returns the fakes. A call waits for the stream's earlier work, and computes before it returns;
/// NCCL's exchanges run on the streams. NCCL's calls must be those of all ranks in one group. The
/// program ends if a communicator is used after it was aborted or destroyed, or ended while a call
/// uses it.
const GpuLibraries& fake_gpu();

/// Faults of the fake's NCCL from now on.
struct NcclTrouble {
  int reports = -1;  ///< this rank's communicator reports an error, and its stream hangs
  int refuses = -1;  ///< this rank's call returns an error
  int hangs = -1;    ///< this rank's stream does not finish before the abort
  std::function<void()> meanwhile{};  ///< called within the call that enqueues an exchange
};
void set_nccl_trouble(const NcclTrouble& trouble);
/// Returns the number of values of each exchange that completed since the last call, in order.
std::vector<std::size_t> nccl_exchanges();
/// Returns the number of communicators that were made, and neither destroyed nor aborted.
int nccl_communicators();

}  // namespace penstock::towers::test
