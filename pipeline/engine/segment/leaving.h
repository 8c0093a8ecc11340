// Takes down a tree whose reads may hang.
#pragma once

#include <atomic>
#include <chrono>

#include <penstock/internal/start_thread.h>

#include "pipeline/stage/segment.h"

namespace penstock {

/// Takes down the tree of an epoch that is left before its end, where a read may hang. It uses a
/// thread of its own, so that the caller can stop waiting. Used by one thread.
class Leaving {
 public:
  /// Destroys `tree`, which may be null. Returns false if the run was cancelled and the destruction
  /// took longer than `deadline` from then on. The tree is then destroyed as soon as possible, and
  /// the destructor of this object waits for that. If no thread can be started, the calling thread
  /// destroys the tree.
  bool destroy(SegmentPtr tree, const std::atomic<bool>& cancelled,
               std::chrono::milliseconds deadline);

 private:
  std::atomic<bool> done_{true};
  Thread thread_;
};

}  // namespace penstock
