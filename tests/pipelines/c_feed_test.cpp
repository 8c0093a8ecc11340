#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <penstock/c.h>

#include "tests/pipelines/c_handles.h"
#include "tests/support/files.h"
#include "tests/support/time_limit.h"

namespace penstock::test {
namespace {

struct CloseFeed {
  void operator()(penstock_feed* handle) const { penstock_feed_close(handle); }
};
using FeedPtr = std::unique_ptr<penstock_feed, CloseFeed>;

FeedPtr start_feed(const PipelinePtr& pipeline, int towers, const std::string& state = "") {
  penstock_feed* feed = nullptr;
  EXPECT_EQ(
      penstock_feed_start(pipeline.get(), towers, PENSTOCK_FEED_PER_TOWER, PENSTOCK_EPOCH_DROP,
                          state.empty() ? nullptr : state.data(), state.size(), &feed),
      PENSTOCK_OK)
      << penstock_error();
  return FeedPtr(feed);
}

/// All values of what is left, of towers that go from step to step together.
std::vector<std::vector<std::int64_t>> rest_of(const FeedPtr& feed, int towers) {
  std::vector<std::vector<std::int64_t>> of_tower(static_cast<std::size_t>(towers));
  std::vector<std::jthread> threads;
  for (int tower = 0; tower < towers; ++tower)
    threads.emplace_back([&, tower] {
      while (penstock_feed_ended(feed.get(), tower) == 0) {
        penstock_element* batch = nullptr;
        if (penstock_feed_next(feed.get(), tower, &batch) != PENSTOCK_OK) continue;
        const ElementPtr held(batch);
        for (const std::int64_t value : values_of(held))
          of_tower[static_cast<std::size_t>(tower)].push_back(value);
      }
    });
  return of_tower;
}

TEST(CFeed, FeedsTowersAndGoesOn) {
  const TimeLimit limit(60);
  const PipelinePtr pipeline = parse(numbers(32, "[run]\nepochs = 2\n"));
  const FeedPtr feed = start_feed(pipeline, 2);
  std::vector<std::int64_t> first;
  for (int tower = 0; tower < 2; ++tower) {
    penstock_element* batch = nullptr;
    ASSERT_EQ(penstock_feed_next(feed.get(), tower, &batch), PENSTOCK_OK) << penstock_error();
    const ElementPtr held(batch);
    EXPECT_EQ(penstock_element_rows(batch), 4);
    EXPECT_STREQ(column_of(held).name, "value");
    for (const std::int64_t value : values_of(held)) first.push_back(value);
  }
  void* state = nullptr;
  std::size_t size = 0;
  ASSERT_EQ(penstock_feed_save(feed.get(), &state, &size), PENSTOCK_OK) << penstock_error();
  const std::string saved(static_cast<const char*>(state), size);
  penstock_free(state);
  const std::vector<std::vector<std::int64_t>> rest = rest_of(feed, 2);
  EXPECT_EQ(first.size() + rest[0].size() + rest[1].size(), 64U);
  EXPECT_EQ(rest_of(start_feed(pipeline, 2, saved), 2), rest);
  char* json = nullptr;
  ASSERT_EQ(penstock_feed_report(feed.get(), &json), PENSTOCK_OK);
  EXPECT_EQ(nlohmann::json::parse(json)["towers"].size(), 2U);
  penstock_free(json);
}

TEST(CFeed, FeedsByteStringsThatOutliveTheFeed) {
  const TimeLimit limit(60);
  const TempFolder folder;
  folder.write("a.txt",
               "one\n\nthree, which is longer than an element has room for by itself\n4\n");
  ElementPtr batch;
  {
    const FeedPtr feed =
        start_feed(parse("[source]\nkind = \"lines\"\npaths = \"" + folder / "a.txt" +
                         "\"\nindex_folder = \"-\"\n[[stages]]\nkind = \"batch\"\nsize = 4\n"),
                   1);
    penstock_element* next = nullptr;
    ASSERT_EQ(penstock_feed_next(feed.get(), 0, &next), PENSTOCK_OK) << penstock_error();
    batch.reset(next);
    EXPECT_EQ(penstock_feed_next(feed.get(), 0, &next), PENSTOCK_END);
    EXPECT_EQ(penstock_feed_next(feed.get(), 1, &next), PENSTOCK_INVALID_ARGUMENT);
    EXPECT_EQ(penstock_feed_ended(feed.get(), 0), 1);
    EXPECT_EQ(penstock_feed_ended(feed.get(), -1), 1);
  }
  std::vector<std::string> lines;
  for (std::int64_t row = 0; row < 4; ++row) {
    const void* data = nullptr;
    std::size_t size = 0;
    ASSERT_EQ(penstock_element_bytes(batch.get(), 0, row, &data, &size), PENSTOCK_OK);
    lines.emplace_back(static_cast<const char*>(data), size);
  }
  EXPECT_THAT(lines,
              testing::ElementsAre(
                  "one", "", "three, which is longer than an element has room for by itself", "4"));
}

TEST(CFeed, RefusesFeedsThatAreNone) {
  const TimeLimit limit(60);
  penstock_feed* feed = nullptr;
  const PipelinePtr pipeline = parse(numbers(32));
  const auto start = [&](const PipelinePtr& from, int towers, int mode, int end) {
    return penstock_feed_start(from.get(), towers, static_cast<penstock_feed_mode>(mode),
                               static_cast<penstock_epoch_end>(end), nullptr, 0, &feed);
  };
  EXPECT_EQ(start(pipeline, 0, 1, 0), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(start(pipeline, 1025, 1, 0), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(start(pipeline, 1, 3, 0), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(start(pipeline, 1, 1, 4), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(start(pipeline, 3, PENSTOCK_FEED_SPLIT, 0), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(start(PipelinePtr(), 1, 1, 0), PENSTOCK_INVALID_ARGUMENT);
  // No batches.
  EXPECT_EQ(start(parse("[source]\nkind = \"range\"\nstop = 4\n"), 1, 1, 0),
            PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(feed, nullptr);
  penstock_feed_cancel(nullptr);
  penstock_feed_close(nullptr);
  EXPECT_EQ(penstock_feed_ended(nullptr, 0), 1);
  EXPECT_EQ(penstock_feed_next(nullptr, 0, nullptr), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_feed_save(nullptr, nullptr, nullptr), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_feed_report(nullptr, nullptr), PENSTOCK_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace penstock::test
