// The NUMA node that new memory comes from.
#pragma once

#include <array>

namespace penstock::cuda {

/// A scope in which memory that the calling thread touches for the first time comes from this NUMA
/// node, if the node has room. With a negative node, nothing changes. The destructor restores the
/// thread's own policy. Does nothing if the policy can't be read or set.
class NumaNode {
 public:
  explicit NumaNode(int node) noexcept;
  ~NumaNode();
  NumaNode(const NumaNode&) = delete;
  NumaNode& operator=(const NumaNode&) = delete;

 private:
  static constexpr int kBits = 8 * sizeof(unsigned long);
  static constexpr int kNodes = 1024;  // the most that Linux can have
  using Nodes = std::array<unsigned long, kNodes / kBits>;

  bool set_ = false;
  int policy_ = 0;  // the thread's own
  Nodes nodes_{};   // the nodes of that policy
};

}  // namespace penstock::cuda
