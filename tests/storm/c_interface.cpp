// The C interface when allocations fail: each call says so, and nothing leaves it but a status. Not
// of reports, whose JSON nlohmann-json allocates for when it is destroyed, too.
#include <cstring>
#include <string>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/c.h>

#include "pipelines/c/arrow.h"
#include "tests/storm/storm.h"
#include "tests/support/time_limit.h"

namespace penstock::storm {
namespace {

using testing::AnyOf;

constexpr const char* kPipeline = R"([source]
kind = "range"
stop = 64
[[stages]]
kind = "shuffle"
[[stages]]
kind = "batch"
size = 16
[run]
threads = 1
)";

/// A whole program; ends at the first failure. Returns its status.
penstock_status use_all() {
  penstock_pipeline* pipeline = nullptr;
  penstock_run* run = nullptr;
  penstock_element* element = nullptr;
  void* state = nullptr;
  std::size_t size = 0;
  penstock_column column;
  penstock_status status =
      penstock_pipeline_parse(kPipeline, std::strlen(kPipeline), nullptr, &pipeline);
  if (status == PENSTOCK_OK) status = penstock_run_start(pipeline, nullptr, 0, &run);
  if (status == PENSTOCK_OK) status = penstock_run_next(run, &element);
  if (status == PENSTOCK_OK) status = penstock_element_column(element, 0, &column);
  ArrowSchema schema{};
  ArrowArray array{};
  if (status == PENSTOCK_OK) status = penstock_element_arrow(element, &schema, &array);
  if (schema.release != nullptr) schema.release(&schema);
  if (array.release != nullptr) array.release(&array);
  if (status == PENSTOCK_OK) status = penstock_run_save(run, &state, &size);
  penstock_free(state);
  penstock_element_close(element);
  penstock_run_close(run);
  penstock_pipeline_close(pipeline);
  return status;
}

/// The same of a feed.
penstock_status use_feed() {
  penstock_pipeline* pipeline = nullptr;
  penstock_feed* feed = nullptr;
  penstock_element* batch = nullptr;
  void* state = nullptr;
  std::size_t size = 0;
  penstock_status status =
      penstock_pipeline_parse(kPipeline, std::strlen(kPipeline), nullptr, &pipeline);
  if (status == PENSTOCK_OK)
    status = penstock_feed_start(pipeline, 1, PENSTOCK_FEED_PER_TOWER, PENSTOCK_EPOCH_DROP, nullptr,
                                 0, &feed);
  if (status == PENSTOCK_OK) status = penstock_feed_next(feed, 0, &batch);
  if (status == PENSTOCK_OK) status = penstock_feed_save(feed, &state, &size);
  penstock_free(state);
  penstock_element_close(batch);
  penstock_feed_close(feed);
  penstock_pipeline_close(pipeline);
  return status;
}

void fail_everywhere(penstock_status (*use)()) {
  ASSERT_EQ(use(), PENSTOCK_OK);
  for (const long burst : {1, 1000}) {
    long failed = 1;
    // Every place of what is parsed, then fewer and fewer.
    for (long place = 0; failed > 0; place += 1 + place / 100) {
      begin(place, burst);
      const penstock_status status = use();
      failed = end().all_failed();
      ASSERT_THAT(status, AnyOf(PENSTOCK_OK, PENSTOCK_RESOURCE_EXHAUSTED))
          << penstock_error() << " at " << place;
    }
  }
  EXPECT_EQ(use(), PENSTOCK_OK);
}

/// In a process of its own: tests that run after this one fork victims, and a child of a process
/// that has run a dataset can't run one.
void fail_everywhere_apart(penstock_status (*use)()) {
  const auto run = [use] {
    const test::TimeLimit limit(100);
    fail_everywhere(use);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

TEST(FailingNew, LeavesTheCInterfaceWhole) {
  fail_everywhere_apart(use_all);
}

TEST(FailingNew, LeavesTheCInterfacesFeedsWhole) {
  fail_everywhere_apart(use_feed);
}

}  // namespace
}  // namespace penstock::storm
