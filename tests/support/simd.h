// Runs something once for every SIMD target that this machine has.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

#include <hwy/highway.h>

namespace penstock::test {

/// Calls `act` with the name of each target, from the best down to plain C++, and restores the
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

/// Lets the process use no better target than this one ("AVX2"). Throws std::invalid_argument if
/// the machine does not have it.
inline void use_target(const std::string& name) {
  hwy::SetSupportedTargetsForTest(0);
  std::int64_t left = hwy::SupportedTargets() | HWY_SCALAR;
  std::string names;
  for (; left != 0 && name != hwy::TargetName(left & -left); left &= left - 1)
    names += std::string(" ") + hwy::TargetName(left & -left);
  if (left == 0) throw std::invalid_argument("no SIMD target " + name + " here, but:" + names);
  hwy::SetSupportedTargetsForTest(left);
  hwy::GetChosenTarget().DeInit();
}

}  // namespace penstock::test
