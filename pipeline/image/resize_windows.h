// The horizontal pass for AVX-512 with VBMI and VNNI, which Highway 1.0 does not support.
#pragma once

#include "pipeline/image/resize_kernels.h"

namespace penstock::image {

/// Returns the kernel for `pass` and fills its table. Returns null if the pixels of the pass lie
/// too far apart for the kernel. REQUIRES: avx3_dl_supported().
HorizontalPass::Run prepare_windows(HorizontalPass& pass);

}  // namespace penstock::image
