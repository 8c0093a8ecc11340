// One suite over every source, as a run reads it: alone, in batches (whose rows sources write
// themselves) and shuffled, with errors in their places, restored at every position, cancelled.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include <penstock/internal/crc32c.h>
#include <penstock/iterator.h>

#include "tests/conformance/source_suite.h"
#include "tests/support/canceller.h"

namespace penstock {
namespace source_runs_test {

constexpr std::size_t kRecords = 11;
constexpr std::size_t kBad = 6;

class SourceRuns : public test::SourceSuite {
 protected:
  /// The number of the damaged record, if the format can tell.
  static std::size_t bad() { return GetParam().damage ? kBad : test::kNone; }
};

std::string bytes_of(const Tensor& tensor) {
  if (tensor.dtype() == DType::bytes) return std::string(tensor.bytes_at());
  const Tensor flat = tensor.contiguous() ? tensor : tensor.clone();
  return {reinterpret_cast<const char*>(flat.data()), flat.nbytes()};
}

/// The rows of an element, or the only one; or the address of its error.
void append(Next next, std::vector<std::string>& rows) {
  if (next.is_error()) {
    rows.push_back("E " + next.error().where().shard + " " +
                   std::to_string(next.error().where().index));
    return;
  }
  const bool batch = next->valid_rows >= 0;
  for (std::int64_t i = 0; i < (batch ? next->valid_rows : 1); ++i) {
    std::string row;
    for (std::size_t c = 0; c < next->size(); ++c)
      row += std::to_string(crc32c(test::as_bytes(bytes_of(batch ? (*next)[c][i] : (*next)[c])))) +
             " ";
    rows.push_back(std::move(row));
  }
}

std::vector<std::string> rest_of(Iterator& iterator) {
  std::vector<std::string> rows;
  do {
    for (Next next = iterator.next(); !next.is_end(); next = iterator.next())
      append(std::move(next), rows);
    rows.push_back("the end");
  } while (iterator.next_epoch());
  return rows;
}

std::vector<std::string> rows_of(const Dataset& dataset, RunOptions options = {.threads = 2}) {
  Iterator iterator = dataset.iterate(options);
  return rest_of(iterator);
}

TEST_P(SourceRuns, GiveTheSameAloneAndInBatches) {
  const Dataset records = dataset(kRecords);
  EXPECT_EQ(records.spec().to_string(), GetParam().spec);
  const std::vector<std::string> rows = rows_of(records, {.threads = 1});
  ASSERT_EQ(rows.size(), kRecords + 1);
  for (const int threads : {1, 2, 8}) {
    EXPECT_EQ(rows_of(records, {.threads = threads}), rows);
    EXPECT_EQ(rows_of(records.batch(4), {.threads = threads}), rows);
    EXPECT_EQ(rows_of(records.batch(kRecords), {.threads = threads, .slots = 1}), rows);
  }
}

TEST_P(SourceRuns, GiveTheSameRecordsShuffled) {
  const Dataset records = dataset(kRecords);
  const std::vector<std::string> in_order = rows_of(records);
  std::vector<std::string> rows = in_order;
  std::vector<ShuffleOptions> ways{{.buffer = 5}};
  if (records.node()->source()->size()) ways.push_back({});
  std::ranges::sort(rows);
  for (const ShuffleOptions& shuffle : ways) {
    std::vector<std::string> shuffled = rows_of(records.shuffle(shuffle).batch(4), {.seed = 5});
    EXPECT_NE(shuffled, in_order);
    std::ranges::sort(shuffled);
    EXPECT_EQ(shuffled, rows);
  }
}

TEST_P(SourceRuns, NameTheDamagedRecordInItsPlace) {
  if (!GetParam().damage) return;
  const Dataset records = dataset(kRecords, kBad);
  const Provenance place = locate_all(*records.node()->source())[kBad];
  std::vector<std::string> expected = rows_of(dataset(kRecords));
  expected[kBad] = "E " + place.shard + " " + std::to_string(kBad);
  for (const int threads : {1, 2, 8}) EXPECT_EQ(rows_of(records, {.threads = threads}), expected);
  expected.erase(expected.begin() + kBad);
  for (const int threads : {1, 2, 8}) {
    const RunOptions skip{.threads = threads, .on_error = OnError::skip};
    EXPECT_EQ(rows_of(records, skip), expected);
    EXPECT_EQ(rows_of(records.batch(3), skip), expected);
  }
}

TEST_P(SourceRuns, AreRestoredAtEveryPosition) {
  for (const bool batched : {false, true}) {
    const Dataset records = dataset(kRecords, bad());
    const Dataset graph = batched ? records.batch(3) : records;
    const RunOptions options{.seed = 6, .epochs = 2, .threads = 2};
    std::vector<std::string> front;
    Iterator iterator = graph.iterate(options);
    const std::vector<std::string> all = rows_of(graph, options);
    std::size_t position = 0;
    do {
      for (;;) {
        Iterator restored =
            graph.restore(iterator.save(), {.seed = 6,
                                            .epochs = 2,
                                            .threads = position % 2 == 0 ? 1 : 8,
                                            .slots = 1 + static_cast<int>(position % 3)});
        std::vector<std::string> joined = front;
        for (std::string& row : rest_of(restored)) joined.push_back(std::move(row));
        EXPECT_EQ(joined, all) << "at " << position << (batched ? " of batches" : "");
        ++position;
        Next next = iterator.next();
        if (next.is_end()) break;
        append(std::move(next), front);
      }
      front.emplace_back("the end");
    } while (iterator.next_epoch());
  }
}

TEST_P(SourceRuns, EndAtOnceWhenCancelled) {
  auto open = std::make_shared<std::atomic<bool>>(true);
  const auto wait = [open] {
    while (!*open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  hook_ = [wait](const std::string&, const ReadRequest&) {
    wait();
    return Status();
  };
  // Some records come, then whatever makes them waits.
  auto left = std::make_shared<std::atomic<int>>(3);
  before_ = [wait, left, open] {
    if (--*left < 0) wait();
  };
  const Dataset records = dataset(kRecords).repeat();
  *open = false;
  Iterator iterator = records.batch(2).iterate({.threads = 2, .slots = 1});
  test::Canceller canceller(iterator, *open);
  Next next = iterator.next();
  while (next.has_value()) next = iterator.next();
  canceller.woken();
  ASSERT_TRUE(next.is_error());
  EXPECT_EQ(next.error().code(), ErrorCode::cancelled);
  EXPECT_TRUE(iterator.next().is_end()) << "it is said once";
  EXPECT_FALSE(iterator.next_epoch());
}

TEST_P(SourceRuns, ServeTwoRunsAtOnce) {
  const Dataset records = dataset(kRecords, bad());
  const std::vector<std::string> expected = rows_of(records);
  Iterator a = records.iterate({.threads = 2});
  Iterator b = records.iterate({.threads = 1});
  std::vector<std::string> of_a;
  std::vector<std::string> of_b;
  for (std::size_t i = 0; i < kRecords; ++i) {
    append(a.next(), of_a);
    append(b.next(), of_b);
  }
  EXPECT_TRUE(a.next().is_end());
  EXPECT_TRUE(b.next().is_end());
  of_a.emplace_back("the end");
  of_b.emplace_back("the end");
  EXPECT_EQ(of_a, expected);
  EXPECT_EQ(of_b, expected);
}

INSTANTIATE_TEST_SUITE_P(Conformance, SourceRuns, ::testing::ValuesIn(test::sources()),
                         test::SourceSuite::name_of);

}  // namespace source_runs_test
}  // namespace penstock
