#include <penstock/c.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <penstock/dlpack.h>

#include "tests/pipelines/c_handles.h"
#include "tests/support/files.h"
#include "tests/support/time_limit.h"

namespace penstock::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(C, GivesColumnsByName) {
  const TimeLimit limit(60);
  const RunPtr run = start(parse(numbers(10)));
  const ElementPtr batch = next(run);
  ASSERT_EQ(penstock_element_columns(batch.get()), 1U);
  EXPECT_EQ(penstock_element_rows(batch.get()), 4);
  std::size_t index = 7;
  ASSERT_EQ(penstock_element_find(batch.get(), "value", &index), PENSTOCK_OK);
  EXPECT_EQ(index, 0U);
  const penstock_column column = column_of(batch, index);
  EXPECT_STREQ(column.name, "value");
  EXPECT_EQ(column.dtype, PENSTOCK_I64);
  EXPECT_STREQ(penstock_dtype_name(column.dtype), "i64");
  EXPECT_EQ(column.rank, 1);
  EXPECT_EQ(column.shape[0], 4);
  EXPECT_EQ(column.shape[1], 0);
  EXPECT_EQ(column.strides[0], 1);
  EXPECT_NE(column.data, nullptr);

  penstock_column none{};
  EXPECT_EQ(penstock_element_column(batch.get(), 1, &none), PENSTOCK_OUT_OF_RANGE);
  EXPECT_EQ(penstock_element_find(batch.get(), "image", &index), PENSTOCK_NOT_FOUND);
  EXPECT_THAT(penstock_error(), HasSubstr("value"));
  const void* data = nullptr;
  std::size_t size = 0;
  EXPECT_EQ(penstock_element_bytes(batch.get(), 0, 0, &data, &size), PENSTOCK_INVALID_ARGUMENT);
}

TEST(C, GivesByteStringsOfAnElementThatOutlivesAllElse) {
  const TimeLimit limit(60);
  const TempFolder folder;
  folder.write("a.txt", "one\ntwo, and more than an element has inside of itself\n\n");
  ElementPtr batch;
  {
    const PipelinePtr pipeline =
        parse("[source]\nkind = \"lines\"\npaths = \"" + folder / "a.txt" +
              "\"\nindex_folder = \"-\"\n[[stages]]\nkind = \"batch\"\nsize = 3\n");
    batch = next(start(pipeline));
  }
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < penstock_element_columns(batch.get()); ++i) {
    const penstock_column column = column_of(batch, i);
    if (column.dtype != PENSTOCK_BYTES) continue;
    EXPECT_EQ(column.data, nullptr);
    const void* data = nullptr;
    std::size_t size = 0;
    for (std::int64_t row = 0; row < column.shape[0]; ++row) {
      ASSERT_EQ(penstock_element_bytes(batch.get(), i, row, &data, &size), PENSTOCK_OK);
      lines.emplace_back(static_cast<const char*>(data), size);
    }
    for (const std::int64_t row : {std::int64_t{-1}, column.shape[0]})
      EXPECT_EQ(penstock_element_bytes(batch.get(), i, row, &data, &size), PENSTOCK_OUT_OF_RANGE);
    DLManagedTensor* tensor = nullptr;
    EXPECT_EQ(penstock_element_dlpack(batch.get(), i, &tensor), PENSTOCK_INVALID_ARGUMENT);
    EXPECT_EQ(tensor, nullptr);
  }
  EXPECT_THAT(
      lines, testing::ElementsAre("one", "two, and more than an element has inside of itself", ""));
}

TEST(C, EndsAgainAndAgainAndHasEpochs) {
  const TimeLimit limit(60);
  const RunPtr run = start(parse(numbers(6, "[run]\nepochs = 2\n")));
  std::vector<std::int64_t> first = rest_of(run);
  EXPECT_EQ(penstock_run_epoch(run.get()), 0U);
  for (int i = 0; i < 3; ++i) next(run, PENSTOCK_END);
  ASSERT_EQ(penstock_run_next_epoch(run.get()), PENSTOCK_OK);
  EXPECT_EQ(penstock_run_epoch(run.get()), 1U);
  std::vector<std::int64_t> second = rest_of(run);
  EXPECT_EQ(penstock_run_next_epoch(run.get()), PENSTOCK_END);
  next(run, PENSTOCK_END);
  std::ranges::sort(first);
  std::ranges::sort(second);
  EXPECT_THAT(first, testing::ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(first, second);
}

TEST(C, GoesOnWhereARunWasSaved) {
  const TimeLimit limit(60);
  const PipelinePtr pipeline = parse(numbers(50));
  const RunPtr run = start(pipeline);
  next(run);
  next(run);
  const std::string state = save(run);
  const std::vector<std::int64_t> rest = rest_of(run);
  ASSERT_EQ(rest.size(), 42U);
  EXPECT_EQ(rest_of(start(pipeline, state)), rest);

  penstock_run* none = nullptr;
  std::string damaged = state;
  damaged[damaged.size() / 2] ^= 1;
  EXPECT_EQ(penstock_run_start(pipeline.get(), damaged.data(), damaged.size(), &none),
            PENSTOCK_DATA_LOSS);
  EXPECT_EQ(penstock_run_start(pipeline.get(), state.data(), 0, &none), PENSTOCK_DATA_LOSS);
  EXPECT_EQ(penstock_run_start(parse(numbers(51)).get(), state.data(), state.size(), &none),
            PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(none, nullptr);
}

TEST(C, HandsColumnsToOthersWithoutACopy) {
  const TimeLimit limit(60);
  dlpack::DLManagedTensor* tensor = nullptr;
  std::vector<std::int64_t> expected;
  {
    const ElementPtr batch = next(start(parse(numbers(100))));
    expected = values_of(batch);
    ASSERT_EQ(penstock_element_dlpack(batch.get(), 0, reinterpret_cast<DLManagedTensor**>(&tensor)),
              PENSTOCK_OK);
    const auto* const first = static_cast<const char*>(tensor->dl_tensor.data);
    EXPECT_EQ(first + tensor->dl_tensor.byte_offset, column_of(batch).data);
  }
  // The element, its run and its pipeline are closed.
  EXPECT_EQ(tensor->dl_tensor.ndim, 1);
  EXPECT_EQ(tensor->dl_tensor.shape[0], 4);
  const auto* const values = static_cast<const std::int64_t*>(tensor->dl_tensor.data);
  EXPECT_EQ(std::vector<std::int64_t>(values, values + 4), expected);
  tensor->deleter(tensor);
}

TEST(C, ReportsAsJson) {
  const TimeLimit limit(60);
  const RunPtr run = start(parse(numbers(10)));
  rest_of(run);
  char* json = nullptr;
  ASSERT_EQ(penstock_run_report(run.get(), &json), PENSTOCK_OK) << penstock_error();
  const nlohmann::json report = nlohmann::json::parse(json);
  penstock_free(json);
  EXPECT_TRUE(report.is_object());
  EXPECT_FALSE(report.empty());
}

TEST(C, SaysWhereATextIsWrong) {
  penstock_pipeline* pipeline = nullptr;
  const std::string size =
      "[source]\nkind = \"range\"\nstop = 9\n[[stages]]\nkind = \"batch\"\nsize = 0\n";
  EXPECT_EQ(penstock_pipeline_parse(size.data(), size.size(), "a.toml", &pipeline),
            PENSTOCK_INVALID_ARGUMENT);
  EXPECT_STREQ(penstock_error(), "size must be at least 1, got 0 (a.toml:6 stages[0].size)");
  for (const std::string text : {"", "[=", "[source]", "\xff", "[run]\nthreads = 1"}) {
    EXPECT_EQ(penstock_pipeline_parse(text.data(), text.size(), nullptr, &pipeline),
              PENSTOCK_INVALID_ARGUMENT)
        << text;
    EXPECT_EQ(pipeline, nullptr);
    EXPECT_THAT(penstock_error(), HasSubstr("pipeline"));
  }
  const std::string device =
      "[source]\nkind = \"images\"\npath = \"x\"\n[[stages]]\nkind = \"decode\"\non_device = "
      "true\n";
  EXPECT_NE(penstock_pipeline_parse(device.data(), device.size(), nullptr, &pipeline), PENSTOCK_OK);
}

TEST(C, ReadsFilesAndSaysWhichAreMissing) {
  const TimeLimit limit(60);
  const TempFolder folder;
  penstock_pipeline* pipeline = nullptr;
  EXPECT_EQ(penstock_pipeline_read((folder / "none.toml").c_str(), &pipeline), PENSTOCK_NOT_FOUND);
  EXPECT_THAT(penstock_error(), HasSubstr("none.toml"));
  EXPECT_EQ(penstock_pipeline_read(folder.path().c_str(), &pipeline), PENSTOCK_NOT_FOUND);
  EXPECT_THAT(penstock_error(), HasSubstr("Is a directory"));

  const std::string shards = folder.write(
      "shards.toml", "[source]\nkind = \"tar\"\npaths = \"" + folder / "none.tar" + "\"\n");
  EXPECT_EQ(penstock_pipeline_read(shards.c_str(), &pipeline), PENSTOCK_NOT_FOUND);
  EXPECT_THAT(penstock_error(), HasSubstr("none.tar"));

  const std::string good = folder.write("good.toml", numbers(10));
  ASSERT_EQ(penstock_pipeline_read(good.c_str(), &pipeline), PENSTOCK_OK) << penstock_error();
  const PipelinePtr closed(pipeline);
  EXPECT_EQ(rest_of(start(closed)).size(), 10U);
}

TEST(C, GivesABadElementsErrorInItsPlace) {
  const TimeLimit limit(60);
  const TempFolder folder;
  folder.write("a.csv", "x\n1\ntwo\n3\n");
  const RunPtr run = start(parse("[source]\nkind = \"csv\"\npaths = \"" + folder / "a.csv" +
                                 "\"\ncolumns = \"x:i64\"\nindex_folder = \"-\"\n"));
  next(run);
  next(run, PENSTOCK_DATA_LOSS);
  EXPECT_THAT(penstock_error(), HasSubstr("a.csv"));
  next(run);
  next(run, PENSTOCK_END);
}

TEST(C, CancelledRun) {
  const TimeLimit limit(60);
  const RunPtr run = start(parse(numbers(1'000'000)));
  std::atomic<int> cancelled{0};
  std::vector<std::jthread> takers;
  for (int i = 0; i < 3; ++i)
    takers.emplace_back([&] {
      penstock_element* element = nullptr;
      penstock_status status = PENSTOCK_OK;
      while ((status = penstock_run_next(run.get(), &element)) != PENSTOCK_END) {
        penstock_element_close(element);
        if (status == PENSTOCK_CANCELLED) ++cancelled;
      }
    });
  penstock_run_cancel(run.get());
  takers.clear();
  EXPECT_EQ(cancelled, 1);
}

TEST(C, ConcurrentThreads) {
  const TimeLimit limit(60);
  const PipelinePtr pipeline = parse(numbers(1000));
  const RunPtr run = start(pipeline);
  EXPECT_EQ(penstock_run_next(nullptr, nullptr), PENSTOCK_INVALID_ARGUMENT);
  std::atomic<std::int64_t> sum{0};
  std::atomic<int> fresh{0};
  {
    std::vector<std::jthread> takers;
    for (int i = 0; i < 4; ++i)
      takers.emplace_back([&] {
        if (std::string(penstock_error()).empty()) ++fresh;
        for (const std::int64_t value : rest_of(run)) sum += value;
      });
  }
  EXPECT_EQ(sum, 999 * 1000 / 2);
  EXPECT_EQ(fresh, 4);
  EXPECT_THAT(penstock_error(), HasSubstr("NULL"));
}

TEST(C, TakesNullForNothing) {
  const TimeLimit limit(60);
  penstock_pipeline* pipeline = nullptr;
  penstock_run* run = nullptr;
  penstock_element* element = nullptr;
  penstock_column column{};
  DLManagedTensor* tensor = nullptr;
  std::size_t size = 0;
  void* state = nullptr;
  const void* data = nullptr;
  char* json = nullptr;
  const PipelinePtr good = parse(numbers(10));
  const RunPtr good_run = start(good);
  const ElementPtr batch = next(good_run);
  const std::vector<penstock_status> statuses{
      penstock_pipeline_parse(nullptr, 0, nullptr, &pipeline),
      penstock_pipeline_parse("", 0, nullptr, nullptr),
      penstock_pipeline_read(nullptr, &pipeline),
      penstock_pipeline_read("x", nullptr),
      penstock_run_start(nullptr, nullptr, 0, &run),
      penstock_run_start(good.get(), nullptr, 0, nullptr),
      penstock_run_next(nullptr, &element),
      penstock_run_next(good_run.get(), nullptr),
      penstock_run_next_epoch(nullptr),
      penstock_run_save(nullptr, &state, &size),
      penstock_run_save(good_run.get(), nullptr, &size),
      penstock_run_save(good_run.get(), &state, nullptr),
      penstock_run_report(nullptr, &json),
      penstock_run_report(good_run.get(), nullptr),
      penstock_element_column(nullptr, 0, &column),
      penstock_element_column(batch.get(), 0, nullptr),
      penstock_element_find(nullptr, "x", &size),
      penstock_element_find(batch.get(), nullptr, &size),
      penstock_element_find(batch.get(), "value", nullptr),
      penstock_element_bytes(nullptr, 0, 0, &data, &size),
      penstock_element_bytes(batch.get(), 0, 0, nullptr, &size),
      penstock_element_bytes(batch.get(), 0, 0, &data, nullptr),
      penstock_element_dlpack(nullptr, 0, &tensor),
      penstock_element_dlpack(batch.get(), 0, nullptr)};
  for (std::size_t i = 0; i < statuses.size(); ++i)
    EXPECT_EQ(statuses[i], PENSTOCK_INVALID_ARGUMENT) << "call " << i;
  EXPECT_EQ(penstock_run_epoch(nullptr), 0U);
  EXPECT_EQ(penstock_element_columns(nullptr), 0U);
  EXPECT_EQ(penstock_element_rows(nullptr), -1);
  penstock_pipeline_close(nullptr);
  penstock_run_cancel(nullptr);
  penstock_run_close(nullptr);
  penstock_element_close(nullptr);
  penstock_free(nullptr);
}

TEST(C, NamesAllItHas) {
  for (int status = PENSTOCK_OK; status <= PENSTOCK_CHANGED; ++status)
    EXPECT_STRNE(penstock_status_name(static_cast<penstock_status>(status)), "unknown");
  EXPECT_STREQ(penstock_status_name(static_cast<penstock_status>(15)), "unknown");
  for (int dtype = PENSTOCK_U8; dtype <= PENSTOCK_BYTES; ++dtype)
    EXPECT_STRNE(penstock_dtype_name(static_cast<penstock_dtype>(dtype)), "unknown");
  EXPECT_STREQ(penstock_dtype_name(static_cast<penstock_dtype>(14)), "unknown");
  EXPECT_THAT(penstock_version(), StartsWith("0."));
}

TEST(C, CutsLongErrorsBetweenCharacters) {
  std::string name;
  for (int i = 0; i < 3000; ++i) name += "\u00e4";
  for (const std::string& shifted : {name, "x" + name}) {
    penstock_pipeline* pipeline = nullptr;
    EXPECT_EQ(penstock_pipeline_parse("[=", 2, shifted.c_str(), &pipeline),
              PENSTOCK_INVALID_ARGUMENT);
    const std::string text = penstock_error();
    EXPECT_GE(text.size(), 4094U);
    EXPECT_LE(text.size(), 4095U);
    EXPECT_TRUE(text.ends_with("\u00e4"));
  }
}

}  // namespace
}  // namespace penstock::test
