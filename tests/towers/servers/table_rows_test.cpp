// Tables on servers, of which some rows are pushed and pulled; and positions of jobs.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/error.h>
#include <penstock/rng.h>

#include "tests/support/errors.h"
#include "tests/towers/servers/small_run.h"
#include "towers/servers/served_position.h"
#include "towers/servers/stop_gate.h"

namespace penstock::towers {
namespace {

using penstock::test::expect_error;
using test::open_run;
using test::small_beginning;
using test::trainee;
using test::Values;

constexpr std::int64_t kRows = 100'000;
constexpr std::size_t kWidth = 8;

/// Variable 0 is a table by rows, variable 1 the same as a whole.
Beginning tables(const std::string& strategy, int processes, const std::string& optimizer,
                 std::int64_t rows) {
  Beginning beginning = small_beginning(strategy, processes);
  beginning.optimizer = optimizer;
  const Shape shape{rows, static_cast<std::int64_t>(kWidth)};
  beginning.variables = {{0, "table", shape, true, true}, {1, "whole", shape, true, false}};
  return beginning;
}

/// Gradients of some rows, as such and as a whole.
struct Gradients {
  Gradients(std::uint64_t seed, std::vector<std::int64_t> some, std::int64_t all)
      : ids(std::move(some)),
        values(ids.size() * kWidth),
        whole(static_cast<std::size_t>(all) * kWidth) {
    Rng rng(seed, 0, 0);
    for (float& value : values) value = static_cast<float>(rng.normal());
    for (std::size_t r = 0; r < ids.size(); ++r)
      std::copy_n(values.data() + r * kWidth, kWidth,
                  whole.data() + static_cast<std::size_t>(ids[r]) * kWidth);
  }
  Piece by_rows() const { return {0, values.data(), values.size(), ids.data(), ids.size()}; }
  Piece as_whole() const { return {1, whole.data(), whole.size(), nullptr, 0}; }

  std::vector<std::int64_t> ids;
  std::vector<float> values, whole;
};

std::vector<float> rows_of(ShardServer& server, std::uint32_t variable,
                           const std::vector<std::int64_t>& rows) {
  std::vector<float> values(rows.size() * kWidth);
  server.pull_rows(trainee(0), variable, rows, values.data(), values.size());
  return values;
}

TEST(TableRows, ChangedRows) {
  Beginning beginning = tables("async", 1, "sgd", kRows);
  beginning.variables.pop_back();
  ShardServer server;
  open_run(server, beginning);
  const Gradients gradients(1, {3, 4, 99'999}, kRows);
  Values given;
  const Push push{0, 1, 0, 1, {gradients.by_rows()}, kHasNothing, {}};
  EXPECT_EQ(server.push(trainee(0), push, given).verdict, PushVerdict::applied);
  static_cast<void>(server.pull(trainee(0), kHasNothing, given));
  EXPECT_TRUE(given.given.empty()) << "ids cost what they are, and the table nothing";
  const std::vector<float> values = rows_of(server, 0, {4, 5, 3});
  for (std::size_t i = 0; i < kWidth; ++i) {
    EXPECT_EQ(values[i], 1 - gradients.values[kWidth + i]);
    EXPECT_EQ(values[kWidth + i], 1);
    EXPECT_EQ(values[2 * kWidth + i], 1 - gradients.values[i]);
  }
  expect_error(ErrorCode::invalid_argument, "variable table has no row 100000",
               [&] { rows_of(server, 0, {kRows}); });
}

TEST(TableRows, RowOfEveryPush) {
  for (const std::string optimizer : {"sgd", "momentum:0.9", "nesterov:0.9", "adam"}) {
    SCOPED_TRACE(optimizer);
    ShardServer server;
    open_run(server, tables("async", 1, optimizer, 6));
    for (std::uint64_t number = 1; number <= 5; ++number) {
      // Rows 1 and 4 each time, row 2 once.
      const Gradients gradients(
          number,
          number == 3 ? std::vector<std::int64_t>{1, 2, 4} : std::vector<std::int64_t>{1, 4}, 6);
      Values none;
      server.push(trainee(0),
                  {0, number, number - 1, 1, {gradients.by_rows(), gradients.as_whole()}, 0, {}},
                  none);
    }
    EXPECT_EQ(rows_of(server, 0, {1, 4}), rows_of(server, 1, {1, 4}));
    // A row that is left out stays, where the whole's continues with what is remembered.
    EXPECT_EQ(rows_of(server, 0, {2}) == rows_of(server, 1, {2}), optimizer == "sgd");
    EXPECT_EQ(rows_of(server, 0, {0}), std::vector<float>(kWidth, 1.0F));
  }
}

TEST(TableRows, RowsOfSyncReplicas) {
  ShardServer server;
  Beginning beginning = tables("sync_replicas", 3, "sgd", 10);
  beginning.clip_norm = 0.5F;
  open_run(server, beginning);
  const std::vector<std::vector<std::int64_t>> ids{{1, 2, 9}, {5}, {0, 2, 3}};
  for (const int replica : {2, 0, 1}) {
    const Gradients gradients(static_cast<std::uint64_t>(replica + 1),
                              ids[static_cast<std::size_t>(replica)], 10);
    Values none;
    server.push(trainee(replica),
                {replica, 1, 0, 2 + replica, {gradients.by_rows(), gradients.as_whole()}, 0, {}},
                none);
    server.commit(trainee(replica), replica, 1, 0, 2 + replica);
  }
  const std::vector<std::int64_t> all{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_EQ(rows_of(server, 0, all), rows_of(server, 1, all));
  EXPECT_NE(rows_of(server, 0, {2}), std::vector<float>(kWidth, 1.0F));
}

TEST(ServedPosition, IsReadBackAndNothingElseIs) {
  ServedPosition position;
  position.heads = {{7, {3, 4, 0, 9}, {}}, {8, {3, 4, 1, 9}, {}}};
  position.feeds = {{"one", {3, 4}}, {std::string("t\0o", 3), {0, 1ULL << 60}}};
  const std::string bytes = position.encode();
  ASSERT_TRUE(ServedPosition::is_one(bytes));
  const ServedPosition read = ServedPosition::decode(bytes);
  EXPECT_EQ(read.encode(), bytes);
  EXPECT_EQ(read.heads[1].pushes, position.heads[1].pushes);
  EXPECT_EQ(read.feeds[1].position, position.feeds[1].position);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut)
    EXPECT_THROW(static_cast<void>(ServedPosition::decode(bytes.substr(0, cut))), Error) << cut;
  EXPECT_THROW(static_cast<void>(ServedPosition::decode(bytes + "x")), Error);
  // Lengths beyond what there is are no reason to ask for memory.
  for (std::size_t at = bytes.size() - 30; at < bytes.size(); ++at) {
    std::string wrong = bytes;
    wrong[at] = static_cast<char>(0xff);
    try {
      static_cast<void>(ServedPosition::decode(wrong));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::data_loss);
    }
  }
}

TEST(StopGate, StepOfTheFirstTower) {
  StopGate gate(3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(gate.pass(0, false));
  EXPECT_TRUE(gate.pass(1, false));
  EXPECT_FALSE(gate.pass(0, true));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(gate.pass(1, true));
  EXPECT_FALSE(gate.pass(1, false));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(gate.pass(2, false)) << "it had begun none";
  EXPECT_FALSE(gate.pass(2, false));
}

}  // namespace
}  // namespace penstock::towers
