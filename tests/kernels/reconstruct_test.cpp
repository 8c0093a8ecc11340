// The kernels that make images, each thread by itself, against the twin that does it all alone.
#include "tests/kernels/batches.h"  // first

#include <gtest/gtest.h>

#include "staging/kernels/reconstruct.h"
#include "staging/reconstruct/twin.h"

namespace penstock {
namespace {

using test::Memory;

/// Each of the kernels of a batch behind those of the same number of all the others.
class Stages {
 public:
  template <typename Body>
  void operator()(const Body& body, kernels::Grid grid) const {
    if (at_ == queues_.size()) queues_.emplace_back();
    queues_[at_++].add(body, {grid.x, grid.y, grid.z});
  }
  void next() { at_ = 0; }
  void run() {
    for (emulation::Queue& queue : queues_) queue.run();
  }

 private:
  mutable std::size_t at_ = 0;
  mutable std::deque<emulation::Queue> queues_;
};

/// Batches [first, end) as `batch_of(memory, number)` makes them, by both; how many are of
/// coefficients.
template <typename BatchOf>
int compare(int first, int end, BatchOf batch_of) {
  int coefficients = 0;
  std::deque<Memory> theirs;
  std::deque<Memory> ours;
  Stages stages;
  for (int number = first; number < end; ++number) {
    const auto seed = static_cast<std::uint64_t>(number);
    reconstruct::run_here(batch_of(theirs.emplace_back(seed), number));
    const reconstruct::Batch batch = batch_of(ours.emplace_back(seed), number);
    coefficients += batch.plans[0].kind == jpeg::PlanKind::coefficients ? 1 : 0;
    stages.next();
    kernels::reconstruct_batch(batch, stages);
  }
  stages.run();
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(test::same_output(theirs[i], ours[i])) << "case " << first + static_cast<int>(i);
  return coefficients;
}

constexpr int kAtOnce = 15;  // whose working memory there is at the same time

TEST(ReconstructionKernels, AreTheirTwinOn60Cases) {
  int coefficients = 0;
  for (int first = 0; first < test::kCases; first += kAtOnce)
    coefficients += compare(first, first + kAtOnce, [](Memory& memory, int number) {
      return test::batch_of(memory, test::packed_case(number));
    });
  EXPECT_GT(coefficients, test::kCases / 2);
}

/// Bytes and plans that no host makes: whatever the twin makes of them, and nothing outside.
TEST(ReconstructionKernels, AreTheirTwinOnDamagedOnes) {
  for (int first = 0; first < test::kCases / 2; first += kAtOnce)
    compare(first, first + kAtOnce, [](Memory& memory, int number) {
      const reconstruct::Batch batch = test::batch_of(memory, test::packed_case(number));
      const emulation::Fenced& packed = memory.parts[1];
      for (int k = 0; k < 3 && packed.size() > 0; ++k)
        packed.data()[memory.rng.below(packed.size())] ^=
            static_cast<unsigned char>(1 + memory.rng.below(255));
      const emulation::Fenced& plans = memory.parts[2];
      if (number % 3 == 0) plans.data()[memory.rng.below(plans.size())] ^= 1U;
      return batch;
    });
}

}  // namespace
}  // namespace penstock
