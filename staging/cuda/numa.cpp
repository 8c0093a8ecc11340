#include "staging/cuda/numa.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace penstock::cuda {

// The kernel reads one bit less than the size it is given.
NumaNode::NumaNode(int node) noexcept {
  if (node < 0 || node >= kNodes ||
      syscall(SYS_get_mempolicy, &policy_, nodes_.data(), kNodes + 1, nullptr, 0) != 0)
    return;
  constexpr int kPreferred = 1;
  Nodes wanted{};
  wanted[static_cast<std::size_t>(node / kBits)] = 1UL << (node % kBits);
  set_ = syscall(SYS_set_mempolicy, kPreferred, wanted.data(), kNodes + 1) == 0;
}

NumaNode::~NumaNode() {
  if (set_) syscall(SYS_set_mempolicy, policy_, nodes_.data(), kNodes + 1);
}

}  // namespace penstock::cuda
