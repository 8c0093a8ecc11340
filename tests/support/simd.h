// Runs code once for every SIMD target of this machine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <hwy/highway.h>

namespace penstock::test {

/// Calls `act` with the name of each target, from the best down to plain C++, and then restores the
/// choice. Code that was not compiled for a target uses the next best.
inline void for_each_target(const std::function<void(const std::string& name)>& act) {
  hwy::SetSupportedTargetsForTest(0);
  std::int64_t left = hwy::SupportedTargets();
  // Scalar code is always compiled, whether or not it counts as supported.
  left |= HWY_SCALAR;
  for (; left != 0; left &= left - 1) {
    // The lowest bit is the best target.
    const std::int64_t target = left & -left;
    hwy::SetSupportedTargetsForTest(left);
    hwy::GetChosenTarget().DeInit();
    act(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

}  // namespace penstock::test
