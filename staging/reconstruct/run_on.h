// Runs the steps of a batch on a stream.
#pragma once

#include <cstddef>

#include <penstock/device.h>

#include "staging/reconstruct/image.h"

namespace penstock::reconstruct {

/// Enqueues the work on the stream. Without an output, it only decodes the scans of JPEGs, and says
/// which are decoded. `out_bytes` is the size of the output, and `work_bytes` of the working
/// memory. REQUIRES: a batch with a row, and the batch's memory until the work has ended. Throws
/// Error{invalid_argument} for a device that runs neither kernels nor host code.
void run_on(const StreamView& stream, const Batch& batch, std::size_t out_bytes,
            std::size_t work_bytes);

}  // namespace penstock::reconstruct
