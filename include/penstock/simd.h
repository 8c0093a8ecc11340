// The SIMD instructions that this process uses.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// Limits the process to these instructions: "AVX2", "SSE4" and so on, as `simd_targets` names
/// them, upper case or lower. "auto" selects the best, as at the start. Results are the same bits
/// whatever you choose. The choice holds for decoding, resizing and finishing of images;
/// libjpeg-turbo, libpng and oneDNN choose for themselves. Call it while no run is active: an
/// active run may use both. Throws Error{invalid_argument} for any other name, with the names that
/// this machine has.
void choose_simd(std::string_view target);
/// Returns the instructions in use: the best that the choice allows, "AVX2".
std::string simd();
/// Returns the instructions that this machine has, the best first. Code that was not compiled for
/// one uses the next.
std::vector<std::string> simd_targets();
/// Returns "AVX2, the best here", or "SSE4, as chosen; the best here is AVX2".
std::string describe_simd();

}  // namespace penstock
