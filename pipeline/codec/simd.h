// Questions about the CPU that Highway does not answer.
#pragma once

namespace penstock::image {

/// True if this machine, and the targets that a test allows, have AVX-512 with VBMI, VBMI2 and VNNI
/// (Highway's AVX3_DL).
bool avx3_dl_supported();

}  // namespace penstock::image
