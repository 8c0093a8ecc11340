// The finishing kernels, each thread by itself, against finish_value and one_hot_value.
#include "tests/kernels/cases.h"  // first

#include <gtest/gtest.h>

#include "staging/kernels/finish.h"

namespace penstock {
namespace {

using test::Memory;

std::int64_t size_of(FinishType type) {
  return type == FinishType::f32 ? 4 : 2;
}

struct Form {
  FinishType type;
  int first;
  int channels;
};

FinishPlan case_of(Memory& memory, Form form, int number) {
  FinishPlan plan;
  plan.type = form.type;
  plan.channels_first = form.first;
  plan.channels = form.channels;
  plan.count = memory.between(1, 3);
  plan.height = static_cast<std::int32_t>(memory.between(1, 9));
  plan.width = static_cast<std::int32_t>(memory.between(1, 9));
  plan.out_height = static_cast<std::int32_t>(memory.between(1, number % 10 == 9 ? 70 : 6));
  plan.out_width = static_cast<std::int32_t>(memory.between(1, number % 10 == 8 ? 70 : 12));
  if (number % 2 == 0) plan.out_width = (plan.out_width + 3) / 4 * 4;  // whole fours
  for (int c = 0; c < 4; ++c) {
    plan.scale[c] = memory.real(0.001F, number % 7 == 0 ? 1e36F : 2.0F);
    plan.shift[c] = memory.real();
  }
  plan.images =
      memory.fill<std::uint8_t>(plan.count * plan.height * plan.width * plan.channels,
                                [&] { return static_cast<std::uint8_t>(memory.rng.below(256)); });
  const FinishSample* samples = memory.fill<FinishSample>(plan.count, [&] {
    return FinishSample{static_cast<std::int32_t>(memory.between(-5, 9)),
                        static_cast<std::int32_t>(memory.between(-5, 9)),
                        static_cast<std::int32_t>(memory.between(0, 1))};
  });
  if (number % 5 != 0) plan.samples = samples;
  // Where the output begins in the middle of four values nothing is stored four at a time.
  const std::int64_t apart = number % 6 == 5 ? 1 : 0;
  const std::int64_t volume = plan.count * plan.out_height * plan.out_width * plan.channels;
  plan.out = memory.leave<std::uint8_t>((volume + apart) * size_of(form.type)) +
             apart * size_of(form.type);
  return plan;
}

TEST(FinishKernels, AreTheirTwinsInEveryFormOn60Cases) {
  std::uint64_t seed = 0;
  for (const FinishType type : {FinishType::f32, FinishType::f16, FinishType::bf16}) {
    for (const int first : {0, 1}) {
      for (const int channels : {1, 2, 3, 4}) {
        emulation::Queue queue;
        std::deque<Memory> theirs;
        std::deque<Memory> ours;
        for (int number = 0; number < test::kCases; ++number) {
          ++seed;
          const FinishPlan twin =
              case_of(theirs.emplace_back(seed), {type, first, channels}, number);
          const FinishPlan plan = case_of(ours.emplace_back(seed), {type, first, channels}, number);
          const std::int64_t volume = twin.count * twin.out_height * twin.out_width * twin.channels;
          for (std::int64_t at = 0; at < volume; ++at) finish_value(twin, at);
          kernels::finish(plan, test::Emulate{queue});
        }
        queue.run();
        for (std::size_t i = 0; i < ours.size(); ++i)
          ASSERT_EQ(test::difference(theirs[i], ours[i]), -1)
              << "case " << i << " of " << static_cast<int>(type) << first << channels;
      }
    }
  }
}

TEST(FinishKernels, HaveMoreSamplesThanAGridHasRows) {
#if defined(__SANITIZE_THREAD__) || defined(PENSTOCK_ASAN)
  GTEST_SKIP() << "16 million threads";
#endif
  const auto make = [](Memory& memory) {
    FinishPlan plan;
    plan.count = kernels::kMostY + 3;
    plan.height = plan.width = plan.out_height = plan.out_width = plan.channels = 1;
    plan.scale[0] = 1;
    plan.images = memory.fill<std::uint8_t>(
        plan.count, [&] { return static_cast<std::uint8_t>(memory.rng.below(256)); });
    plan.out = memory.leave<float>(plan.count);
    return plan;
  };
  Memory theirs(1);
  Memory ours(1);
  const FinishPlan twin = make(theirs);
  for (std::int64_t at = 0; at < twin.count; ++at) finish_value(twin, at);
  emulation::Queue queue;
  kernels::finish(make(ours), test::Emulate{queue});
  queue.run();
  EXPECT_EQ(test::difference(theirs, ours), -1);
}

TEST(OneHotKernels, AreTheirTwinsOn60Cases) {
  for (const FinishType type : {FinishType::f32, FinishType::f16, FinishType::bf16}) {
    emulation::Queue queue;
    std::deque<Memory> theirs;
    std::deque<Memory> ours;
    for (int number = 0; number < test::kCases; ++number) {
      const auto make = [&](Memory& memory) {
        OneHotPlan plan;
        plan.type = type;
        plan.count = memory.between(1, 40);
        plan.classes = memory.between(1, 70);
        plan.labels =
            memory.fill<std::int64_t>(plan.count, [&] { return memory.between(-1, plan.classes); });
        plan.out = memory.leave<std::uint8_t>(plan.count * plan.classes * size_of(type));
        return plan;
      };
      const OneHotPlan twin = make(theirs.emplace_back(static_cast<std::uint64_t>(number)));
      for (std::int64_t at = 0; at < twin.count * twin.classes; ++at) one_hot_value(twin, at);
      kernels::one_hot(make(ours.emplace_back(static_cast<std::uint64_t>(number))),
                       test::Emulate{queue});
    }
    queue.run();
    for (std::size_t i = 0; i < ours.size(); ++i)
      ASSERT_EQ(test::difference(theirs[i], ours[i]), -1) << "case " << i;
  }
}

}  // namespace
}  // namespace penstock
