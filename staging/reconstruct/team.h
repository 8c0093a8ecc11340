// Teams: threads that work on one thing together. This header has the team of one thread;
// staging/kernels/reconstruct.h has the team of a block's threads.
#pragma once

#include "pipeline/core/both.h"

namespace penstock::reconstruct {

/// A team of one thread, which does everything in order.
struct Alone {
  template <typename Do>
  PENSTOCK_BOTH void each(int count, const Do& work) const {
    for (int i = 0; i < count; ++i) work(i);
  }
  /// Does all of the work, and returns whether any part of it returned true.
  template <typename Do>
  PENSTOCK_BOTH bool any(int count, const Do& work) const {
    bool found = false;
    for (int i = 0; i < count; ++i) found = work(i) || found;
    return found;
  }
};

}  // namespace penstock::reconstruct
