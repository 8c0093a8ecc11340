#include "staging/cuda/numa.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include <gtest/gtest.h>

namespace penstock::cuda {
namespace {

constexpr int kInterleave = 3;

struct Policy {
  int mode = -1;
  std::array<unsigned long, 16> nodes{};
  bool operator==(const Policy&) const = default;
};

Policy policy_now() {
  Policy policy;
  syscall(SYS_get_mempolicy, &policy.mode, policy.nodes.data(), 1025, nullptr, 0);
  return policy;
}

TEST(NumaNode, PolicyOfTheThread) {
  const unsigned long first = 1;
  if (syscall(SYS_set_mempolicy, kInterleave, &first, 8 * sizeof(first)) != 0)
    GTEST_SKIP() << "no memory policies here";
  const Policy before = policy_now();
  EXPECT_EQ(before.mode, kInterleave);
  {
    const NumaNode node(0);
    EXPECT_EQ(policy_now().mode, 1);
    EXPECT_EQ(policy_now().nodes[0], 1U);
  }
  EXPECT_EQ(policy_now(), before);
  {
    const NumaNode none(-1);
    EXPECT_EQ(policy_now(), before);
  }
  {
    const NumaNode missing(1000);
    EXPECT_EQ(policy_now(), before);
  }
  EXPECT_EQ(policy_now(), before);
  syscall(SYS_set_mempolicy, 0, nullptr, 0);
  const Policy usual = policy_now();
  { const NumaNode node(0); }
  EXPECT_EQ(policy_now(), usual);
}

}  // namespace
}  // namespace penstock::cuda
