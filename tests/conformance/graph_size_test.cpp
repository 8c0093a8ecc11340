// Graphs as long as they may be. A walk whose time doubles with each stage would not end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include <pthread.h>

#include <penstock/limits.h>
#include <penstock/penstock.h>
#include <penstock/plan.h>

#include "tests/conformance/stages.h"
#include "tests/support/errors.h"
#include "tests/support/sanitizer.h"

namespace penstock {
namespace graph_size_test {

using test::StageCase;
using testing::HasSubstr;

/// Repeats a stage until the graph refuses one more, and returns the longest graph.
Dataset longest(Dataset dataset, const StageCase& stage, std::optional<Error>& refused) {
  for (int i = 0; i < kMostStages; ++i) {
    try {
      dataset = stage.build(dataset);
    } catch (const Error& error) {
      refused = error;
      return dataset;
    }
  }
  return dataset;
}

class GraphSize : public testing::TestWithParam<StageCase> {};

TEST_P(GraphSize, PlanOfTheLongest) {
  std::optional<Error> refused;
  const Dataset dataset =
      longest(test::numbers(std::vector<std::int64_t>(100, 1)), GetParam(), refused);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code(), ErrorCode::invalid_argument) << refused->what();
  EXPECT_THAT(refused->what(), HasSubstr("more than 1000 stages (stages)"));
  try {
    const Plan plan = compile(dataset);
    EXPECT_THAT(plan.summary(), HasSubstr("memory"));
    EXPECT_GT(plan.to_dot().size(), 10'000U);
  } catch (const Error& error) {  // if a dataset is used twice by each stage
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("more than 100000 stages, each as often as it is used"));
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, GraphSize, testing::ValuesIn(test::stages()),
                         [](const auto& tested) { return test::name_of_test(tested.param); });

/// Runs `body` on a thread with this stack.
void on_stack(std::size_t bytes, std::function<void()> body) {
  pthread_attr_t attributes;
  ASSERT_EQ(::pthread_attr_init(&attributes), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&attributes, bytes), 0);
  pthread_t thread{};
  const auto run = [](void* given) -> void* {
    (*static_cast<std::function<void()>*>(given))();
    return nullptr;
  };
  ASSERT_EQ(::pthread_create(&thread, &attributes, run, &body), 0);
  ::pthread_join(thread, nullptr);
  ::pthread_attr_destroy(&attributes);
}

// A caller's thread may have little stack. Those of the library have their own.
TEST(GraphSizes, LongestOnAMebibyteOfStack) {
  constexpr std::size_t kStack =
      test::kAddressSanitizer || test::kThreadSanitizer ? 8 << 20 : 1 << 20;
  const Dataset begin = range(kMostStages);
  const std::vector<std::pair<const char*, std::function<Dataset(const Dataset&)>>> stages{
      {"map", [](const Dataset& d) { return d.map([](Element e) { return e; }); }},
      {"take", [](const Dataset& d) { return d.take(5); }},
      {"skip", [](const Dataset& d) { return d.skip(1); }},
      {"filter", [](const Dataset& d) { return d.filter([](const Element&) { return true; }); }},
      {"shuffle", [](const Dataset& d) { return d.shuffle({.buffer = 3}); }},
      {"shuffle of all", [](const Dataset& d) { return d.shuffle(); }},
      {"repeat", [](const Dataset& d) { return d.repeat(1); }}};
  for (const auto& [name, stage] : stages) {
    on_stack(kStack, [&, name = name, stage = stage] {
      Dataset dataset = begin;
      for (int i = 1; i < kMostStages; ++i) dataset = stage(dataset);
      Iterator iterator = dataset.iterate({.threads = 2});
      EXPECT_FALSE(iterator.next().is_end()) << name;
      const std::string state = iterator.save();
      EXPECT_EQ(iterator.next().is_end(), Dataset(dataset).restore(state, {}).next().is_end())
          << name;
    });
  }
}

TEST(GraphSizes, DatasetUsedTwiceBy30Stages) {
  Dataset dataset = range(10);
  for (int i = 0; i < 30; ++i) dataset = dataset.concatenate(dataset);
  test::expect_error(ErrorCode::invalid_argument, "(places)", [&] { dataset.explain(); });
  test::expect_error(ErrorCode::invalid_argument, "(places)", [&] { dataset.iterate(); });
}

}  // namespace graph_size_test
}  // namespace penstock
