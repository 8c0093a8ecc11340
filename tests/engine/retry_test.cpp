// Reads that are done again, and options that can not be.
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include <penstock/sources.h>

#include "pipeline/io/fault.h"
#include "tests/engine/policies.h"
#include "tests/support/deflate.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/numbers.h"
#include "tests/support/records.h"
#include "tests/support/vectors.h"

namespace penstock {
namespace {

using test::all_of;
using test::Files;
using test::numbers;

/// One read fails, whichever it is: a run without retries gives the error its place, one with
/// retries does not show it.
TEST(Retry, HidesReadsThatFailForAMoment) {
  const Files files;
  TFRecordOptions source{};
  source.index_folder = "-";
  source.files = files.inner;
  std::vector<Error> errors;
  const std::string whole = all_of(tfrecord({"part-*"}, source).batch(3), {}, errors);
  ASSERT_TRUE(errors.empty());
  int injected = 0;
  int surfaced = 0;
  int reread = 0;  // a read of several records is done again one by one
  int at_start = 0;
  for (std::uint64_t nth = 1;; ++nth) {
    bool started = false;
    const auto run = [&](OnError on_error) {
      const auto faults =
          std::make_shared<FaultFileSystem>(files.inner, FaultOptions{.fail_nth = nth});
      source.files = faults;
      errors.clear();
      const Dataset dataset = tfrecord({"part-*"}, source).batch(3);
      started = faults->injected() == 0;
      const std::string text = all_of(dataset, {.threads = 1, .on_error = on_error}, errors);
      return std::pair(text, faults->injected());
    };
    const auto [text, faults] = run(OnError::fail);
    if (faults == 0) break;
    for (const Error& error : errors) {
      EXPECT_EQ(error.code(), ErrorCode::unavailable);
      EXPECT_THAT(error.where().shard, testing::StartsWith("part-"));
      EXPECT_GE(error.where().offset, 0);
      EXPECT_GE(error.where().index, 0);
    }
    if (!started) {  // while the dataset was built, reads are done again in any case
      ++at_start;
      EXPECT_EQ(errors.size(), 0U) << nth;
      EXPECT_TRUE(text == whole) << nth;
      continue;
    }
    ++injected;
    (errors.empty() ? reread : surfaced) += 1;
    EXPECT_TRUE(errors.empty() == (text == whole)) << nth;
    EXPECT_LE(errors.size(), 1U) << nth;
    EXPECT_TRUE(run(OnError::retry).first == whole) << nth;
    EXPECT_TRUE(errors.empty()) << nth;
  }
  EXPECT_GT(surfaced, 0);
  std::printf(
      "figure: F1: %d faults while running: %d surfaced with path and offset, %d gone when "
      "read again alone; %d at the start, all hidden; with retry none shows; 0 hangs\n",
      injected, surfaced, reread, at_start);
}

TEST(Retry, HidesManyFaultsInIndexedSourcesAndStreams) {
  const test::TempFolder folder;
  std::vector<std::string> records;
  for (int i = 0; i < 3000; ++i) records.push_back(std::to_string(i) + test::noise(300, i + 1U));
  folder.write("plain.tfrecord", test::tfrecords_of(records));
  folder.write("packed.tfrecord", test::gzip(test::tfrecords_of(records)));
  for (const char* name : {"plain.tfrecord", "packed.tfrecord"}) {
    const auto faults = std::make_shared<FaultFileSystem>(
        make_file_system("pread"), FaultOptions{.seed = 5, .fail_share = 0.3});
    TFRecordOptions source{};
    source.index_folder = folder.path();
    std::vector<Error> errors;
    const std::string whole = all_of(tfrecord({folder / name}, source).batch(7), {}, errors);
    source.files = faults;
    std::optional<Dataset> dataset;
    while (!dataset) {  // with a whole index, which the first run kept
      try {
        dataset = tfrecord({folder / name}, source).batch(7);
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), ErrorCode::unavailable);
      }
    }
    const RunOptions options{.on_error = OnError::retry, .retries = 20, .retry_ms = 0};
    EXPECT_TRUE(all_of(*dataset, options, errors) == whole) << name;
    EXPECT_EQ(errors.size(), 0U) << name;
    EXPECT_GE(faults->injected(), 3U) << name;
  }
}

TEST(Retry, GivesUpByPolicyAfterItsTries) {
  std::atomic<int> reads{0};
  class Unwell final : public Source {
   public:
    explicit Unwell(std::atomic<int>& reads) : reads_(reads) {}
    std::string name() const override { return "unwell"; }
    void describe(Description&) const override {}
    Spec spec() const override { return test::x_spec(); }
    std::optional<std::uint64_t> size() const override { return 10; }
    bool blocking() const override { return true; }
    void read(std::span<ReadItem> items, ReadContext&) const override {
      for (ReadItem& item : items) {
        item.element = test::x_element(static_cast<std::int64_t>(item.index));
        if (item.index != 4) continue;
        ++reads_;
        item.status = Status(ErrorCode::unavailable, "not now");
      }
    }

   private:
    std::atomic<int>& reads_;
  };
  const Dataset dataset(std::make_shared<Unwell>(reads));
  for (const auto& [on_error, retries, expected_reads, expected] :
       std::vector<std::tuple<OnError, int, int, std::string>>{
           {OnError::fail, -1, 1, "0 1 2 3 E 5 6 7 8 9"},
           {OnError::retry, -1, 5, "0 1 2 3 E 5 6 7 8 9"},
           {OnError::retry, 2, 3, "0 1 2 3 E 5 6 7 8 9"},
           {OnError::skip, 2, 3, "0 1 2 3 5 6 7 8 9"},
           {OnError::skip, -1, 1, "0 1 2 3 5 6 7 8 9"}}) {
    reads = 0;
    EXPECT_EQ(test::run(dataset, {.on_error = on_error, .retries = retries, .retry_ms = 1}),
              expected);
    EXPECT_EQ(reads, expected_reads);
  }
  // A long wait is ended by cancelling.
  reads = 0;
  Iterator iterator =
      dataset.iterate({.on_error = OnError::retry, .retries = 1000, .retry_ms = 1000});
  std::thread canceller([&] {
    while (reads == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // so that it waits by then
    iterator.cancel();
  });
  const auto start = std::chrono::steady_clock::now();
  while (!iterator.next().is_error()) {
  }
  canceller.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(RunOptions, InvalidValues) {
  const struct {
    const char* text;
    RunOptions options;
  } kCases[] = {
      {"threads", {.threads = -1}},
      {"threads must be in [0, 1023], not 1024", {.threads = 1024}},
      {"slots must be in [0, 1048576], not -3", {.slots = -3}},
      {"io_threads must be in [0, 4096], not -3", {.io_threads = -3}},
      {"io_threads must be in", {.io_threads = INT_MAX}},
      {"epochs must be at least 1", {.epochs = 0}},
      {"max_error_share", {.on_error = OnError::skip, .max_error_share = std::nan("")}},
      {"max_error_share", {.on_error = OnError::skip, .max_error_share = -1}},
      {"max_error_share", {.on_error = OnError::skip, .max_error_share = 2}},
      {"need OnError::skip", {.max_errors = 3}},
      {"need OnError::skip", {.on_error = OnError::retry, .max_error_share = 0.5}},
      {"need OnError::skip", {.quarantine = "bad.jsonl"}},
  };
  for (const auto& c : kCases) {
    test::expect_error(ErrorCode::invalid_argument, c.text,
                       [&] { static_cast<void>(numbers(3).iterate(c.options)); });
  }
}

}  // namespace
}  // namespace penstock
