// Taking down what may hang.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "pipeline/order/node.h"

namespace penstock {

/// Takes down the tree of an epoch that is left in the middle, where a read may hang: on a thread
/// of its own, so that whoever leaves the epoch can give up waiting. Used by one thread.
class Leaving {
 public:
  /// Destroys `tree`, which may be null. False if the run was cancelled and this took longer than
  /// `deadline` from then on: the tree goes as soon as it can, and the destructor waits for that.
  /// Where no thread can be started it is waited for here.
  bool destroy(SegmentPtr tree, const std::atomic<bool>& cancelled,
               std::chrono::milliseconds deadline);

 private:
  std::atomic<bool> done_{true};
  std::jthread thread_;
};

}  // namespace penstock
