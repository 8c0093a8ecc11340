// The exchange of gradients among GPUs, with NCCL replaced.
#include <cmath>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/towers/fake_gpu.h"
#include "towers/gpu/nccl_collective.h"

namespace penstock::towers {
namespace {

using penstock::test::thrown_by;
using test::fake_gpu;

/// Towers on the devices named by their numbers, each with an array of ones.
struct Exchange {
  explicit Exchange(const std::vector<int>& places, double timeout_s = 30) {
    for (const int place : places) {
      gpus.push_back(std::make_unique<Gpu>(device({DeviceKind::host, place}), fake_gpu(),
                                           Precision::f32, false));
      pointers.push_back(gpus.back().get());
      arrays.push_back(gpus.back()->array(DType::f32));
      arrays.back().resize({5});
      const std::vector<float> ones(5, static_cast<float>(gpus.size()));
      gpus.back()->upload(ones, arrays.back());
    }
    group = make_nccl_collective(pointers, timeout_s);
  }
  /// One sum, without the towers in `absent`; what the first tower's call threw.
  std::vector<std::optional<Error>> sum(int absent = -1) {
    std::vector<std::optional<Error>> errors(gpus.size());
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < gpus.size(); ++t)
      if (static_cast<int>(t) != absent)
        threads.emplace_back([&, t] {
          pointers[t]->enter();
          errors[t] = thrown_by([&] { group->sum(static_cast<int>(t), arrays[t].values()); });
        });
    threads.clear();
    return errors;
  }
  std::vector<std::unique_ptr<Gpu>> gpus;
  std::vector<Gpu*> pointers;
  std::vector<Array> arrays;
  std::unique_ptr<Collective> group;
};

TEST(NcclCollective, TowersThatShareADeviceAddUpThereFirst) {
  test::nccl_exchanges();
  for (const std::vector<int>& places :
       {std::vector<int>{0}, {0, 1}, {0, 0, 1}, {0, 1, 0, 1}, {2, 2, 2}}) {
    Exchange exchange(places);
    for (int round = 0; round < 3; ++round)
      for (const auto& error : exchange.sum()) EXPECT_FALSE(error);
    double expected = 0;
    for (std::size_t t = 1; t <= places.size(); ++t) expected += static_cast<double>(t);
    expected *= std::pow(static_cast<double>(places.size()), 2);
    for (std::size_t t = 0; t < places.size(); ++t) {
      const Array got = exchange.gpus[t]->download(exchange.arrays[t]);
      for (const float value : got.values()) EXPECT_EQ(static_cast<double>(value), expected);
    }
    EXPECT_EQ(test::nccl_exchanges(), 3);
  }
}

TEST(NcclCollective, ErrorsNameTheRank) {
  struct Trouble {
    test::NcclTrouble what;
    std::string text;
  };
  for (const auto& [what, text] :
       {Trouble{{.reports = 1}, "NCCL rank 1 (host:1) reported: the fake's error"},
        Trouble{{.refuses = 1}, "NCCL rank 1 (host:1): the fake's error"},
        Trouble{{.hangs = 1}, "its exchange did not end in 0.2"}}) {
    Exchange exchange({0, 1, 1}, 0.2);
    test::set_nccl_trouble(what);
    const auto errors = exchange.sum();
    test::set_nccl_trouble({});
    std::string all;
    for (const auto& error : errors)
      if (error) all += error->what() + std::string("\n");
    EXPECT_THAT(all, testing::HasSubstr(text));
    EXPECT_TRUE(exchange.sum()[0]) << "an error is for good";
  }
}

TEST(NcclCollective, ATowerThatNeverEnqueuesIsNamed) {
  Exchange exchange({0, 1}, 0.1);
  const auto errors = exchange.sum(1);
  ASSERT_TRUE(errors[0]);
  EXPECT_EQ(errors[0]->code(), ErrorCode::no_progress);
  EXPECT_THAT(errors[0]->what(), testing::HasSubstr("tower 1 has not come to the exchange"));
}

}  // namespace
}  // namespace penstock::towers
