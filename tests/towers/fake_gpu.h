// NVIDIA's libraries as plain loops over host memory, and kernels as their CPU twins, so that what
// towers on GPUs do is shown where none is: towers on host devices use them as if they were.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "towers/gpu/libraries.h"

namespace penstock::towers::test {

/// Computed before the call returns, behind what the stream was asked for; NCCL's exchanges by the
/// streams. Its calls must be those of all ranks in one group. Whoever uses a communicator that was
/// aborted or destroyed, or ends one that a call is using, ends the program.
const GpuLibraries& fake_gpu();

/// What goes wrong with the fake's NCCL from now on.
struct NcclTrouble {
  int reports = -1;  ///< this rank's communicator reports an error, and its stream hangs
  int refuses = -1;  ///< this rank's call returns an error
  int hangs = -1;    ///< this rank's stream never gets through, until the abort
  std::function<void()> meanwhile{};  ///< called within the call that enqueues an exchange
};
void set_nccl_trouble(const NcclTrouble& trouble);
/// The values of each exchange that went through since the last call, in order.
std::vector<std::size_t> nccl_exchanges();
/// Communicators that were made, and neither destroyed nor aborted.
int nccl_communicators();

}  // namespace penstock::towers::test
