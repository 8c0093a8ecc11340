// Where memory comes from that is touched first.
#pragma once

#include <array>

namespace penstock::cuda {

/// What the calling thread touches first in this scope comes from this NUMA node, if it has room;
/// negative: from where it would have. The thread's own policy is put back at the scope's end.
/// Where a policy can't be asked for or set nothing happens.
class NumaNode {
 public:
  explicit NumaNode(int node) noexcept;
  ~NumaNode();
  NumaNode(const NumaNode&) = delete;
  NumaNode& operator=(const NumaNode&) = delete;

 private:
  static constexpr int kBits = 8 * sizeof(unsigned long);
  static constexpr int kNodes = 1024;  // as many as Linux can have
  using Nodes = std::array<unsigned long, kNodes / kBits>;

  bool set_ = false;
  int policy_ = 0;  // the thread's own
  Nodes nodes_{};   // of that
};

}  // namespace penstock::cuda
