// What towers on GPUs do together.
#pragma once

#include <memory>
#include <vector>

#include "towers/collective.h"
#include "towers/gpu/gpu.h"

namespace penstock::towers {

/// Float sums are of device memory and are enqueued on the towers' streams; doubles, and barriers,
/// are of the host. NCCL's ranks are devices: towers that share one add up there first, in the
/// order of towers. Ends with an error that names the towers that did not come in `timeout_s`, the
/// rank whose communicator reported, or that whose exchange did not end in that time; communicators
/// are then aborted, so that streams go on. `towers` must outlive it.
std::unique_ptr<Collective> make_nccl_collective(const std::vector<Gpu*>& towers, double timeout_s);

}  // namespace penstock::towers
