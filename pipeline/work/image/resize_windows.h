// The horizontal pass for AVX-512 with VBMI and VNNI, which Highway 1.0 has no words for.
#pragma once

#include "pipeline/work/image/resize_kernels.h"

namespace penstock::image {

/// True if this machine (and the targets that a test left) can run it.
bool windows_supported();

/// The kernel for `pass`, its table filled in; null if pixels of the pass lie too far apart for it.
/// REQUIRES: windows_supported().
HorizontalPass::Run prepare_windows(HorizontalPass& pass);

}  // namespace penstock::image
