#include "pipeline/engine/segment/leaving.h"

#include <algorithm>
#include <utility>

#include <penstock/internal/start_thread.h>

namespace penstock {

bool Leaving::destroy(SegmentPtr tree, const std::atomic<bool>& cancelled,
                      std::chrono::milliseconds deadline) {
  if (!tree) return true;
  done_ = false;
  try {
    thread_ = start_thread("leaving an epoch", [this, tree = std::move(tree)]() mutable {
      tree.reset();
      done_ = true;
    });
  } catch (...) {
    return true;  // the tree was destroyed with the callable of the thread
  }
  auto until = std::chrono::steady_clock::now() + deadline;
  // Usually this takes microseconds.
  for (auto pause = std::chrono::microseconds(10); !done_;
       pause = std::min(2 * pause, std::chrono::microseconds(2000))) {
    if (!cancelled) {
      until = std::chrono::steady_clock::now() + deadline;
    } else if (std::chrono::steady_clock::now() > until) {
      return false;
    }
    std::this_thread::sleep_for(pause);
  }
  thread_.join();
  return true;
}

}  // namespace penstock
