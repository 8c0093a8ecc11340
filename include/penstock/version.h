// The version, and the features that were compiled in.
#pragma once

#include <string>

namespace penstock {

/// Returns "0.1.0".
std::string version();
/// Returns one feature a line: "libjpeg-turbo 2.1.5", "oneTBB 2021.8", "io_uring yes", "CUDA no"…
std::string features();

}  // namespace penstock
