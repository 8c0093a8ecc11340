// What a parameter server promises, in this process and behind gRPC, in the clear and with TLS.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "cluster/net/bulk.h"
#include "cluster/net/open.h"
#include "tests/cluster/certificates.h"
#include "tests/cluster/held_server.h"
#include "tests/cluster/ranks.h"
#include "tests/support/files.h"
#include "tests/support/time_limit.h"

namespace penstock::cluster {
namespace {

using namespace std::chrono_literals;
using penstock::test::TempFolder;
using penstock::test::TimeLimit;
using test::error_of;
using test::free_address;
using test::HeldServer;
using test::Taken;
using towers::Piece;
using towers::PushVerdict;

enum class Way { direct, grpc, tls };
void PrintTo(Way way, std::ostream* out) {
  *out << (way == Way::direct ? "direct" : way == Way::grpc ? "grpc" : "tls");
}

const towers::Trainee kChief{.process = 0, .incarnation = "first"};
const towers::Trainee kWorker{.process = 3, .incarnation = std::string("\0\xff odd", 6)};

class Parameters : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (GetParam() == Way::direct) return;
    RendezvousOptions options = test::options_of();
    options.peer_timeout = 2s;
    if (GetParam() == Way::tls) {
      if (!test::make_certificates(folder_.path()))
        GTEST_SKIP() << "Debian's openssl is not installed";
      options.tls = {folder_ / "rank.pem", folder_ / "rank.key", folder_ / "ca.pem"};
      options.token = "the job's";
    }
    const std::string address = free_address();
    service_ = serve_by_grpc(held_, address, options, {});
    client_ = open_by_grpc("ps 0", address, options);
  }
  void TearDown() override {
    client_.reset();
    service_.reset();
  }

  towers::ParameterServer& server() { return client_ == nullptr ? held_ : *client_; }
  HeldServer& held() { return held_; }

  /// A run with variables of so many values; the last, of 100 rows of 8, is pushed by rows.
  void begin(const std::vector<std::int64_t>& counts) {
    towers::Beginning beginning{.run = "run"};
    for (const std::int64_t count : counts)
      beginning.variables.push_back(
          {.number = static_cast<std::uint32_t>(beginning.variables.size()), .shape = {count}});
    beginning.variables.push_back({.number = kTable, .shape = {100, 8}, .by_rows = true});
    server().begin(beginning, kChief);
    server().ready("run");
  }

  static constexpr std::uint32_t kTable = 1000;

 private:
  const TimeLimit limit_{100};
  const TempFolder folder_;
  HeldServer held_;
  std::unique_ptr<ServedParameters> service_;
  std::unique_ptr<towers::ParameterServer> client_;
};

/// Values that no two places have in common, some of which are not equal to themselves.
std::vector<float> values_of(std::size_t count, float first = 0) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] =
        i % 97 == 96 ? std::numeric_limits<float>::quiet_NaN() : first + static_cast<float>(i);
  return values;
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  bits.reserve(values.size());
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

TEST_P(Parameters, HearWhatTheChiefSays) {
  const towers::Beginning said{
      .run = "a run",
      .facts = {{"model", "cifar10"}, {"data", std::string("\xfe\0", 2)}},
      .server = 1,
      .processes = 4,
      .replicas = 8,
      .strategy = "sync_replicas",
      .aggregate = 6,
      .max_staleness = -1,
      .max_steps = std::uint64_t{1} << 40,
      .combine = "average",
      .optimizer = "momentum:0.9",
      .schedule = "constant:0.1",
      .planned_steps = 77,
      .clip_norm = 1.5F,
      .batches = 12,
      .all_needed = true,
      .step = 9,
      .variables = {{.number = 3, .name = "w", .shape = {2, 3}, .trainable = true},
                    {.number = 5, .name = "m", .shape = {}, .trainable = false},
                    {.number = 9, .name = "e", .shape = {7, 2}, .by_rows = true}},
      .pushes = {1, 2, 3},
      .feeds = {{.position = "here", .pushes = {4}}, {.position = "", .pushes = {}}},
      .servers = {"127.0.0.1:1", "127.0.0.1:2"}};
  server().begin(said, kChief);
  const towers::Beginning& heard = held().begun;
  EXPECT_EQ(heard.run, said.run);
  EXPECT_EQ(heard.facts, said.facts);
  EXPECT_EQ(std::tie(heard.server, heard.processes, heard.replicas, heard.strategy, heard.aggregate,
                     heard.max_staleness, heard.max_steps),
            std::tie(said.server, said.processes, said.replicas, said.strategy, said.aggregate,
                     said.max_staleness, said.max_steps));
  EXPECT_EQ(
      std::tie(heard.combine, heard.optimizer, heard.schedule, heard.planned_steps, heard.clip_norm,
               heard.batches, heard.all_needed, heard.step, heard.pushes, heard.servers),
      std::tie(said.combine, said.optimizer, said.schedule, said.planned_steps, said.clip_norm,
               said.batches, said.all_needed, said.step, said.pushes, said.servers));
  ASSERT_EQ(heard.variables.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const towers::ServedVariable& a = heard.variables[i];
    const towers::ServedVariable& b = said.variables[i];
    EXPECT_EQ(std::tie(a.number, a.name, a.shape, a.trainable, a.by_rows),
              std::tie(b.number, b.name, b.shape, b.trainable, b.by_rows));
  }
  ASSERT_EQ(heard.feeds.size(), 2U);
  EXPECT_EQ(heard.feeds[0].position, "here");
  EXPECT_EQ(heard.feeds[0].pushes, towers::Pushes{4});
  EXPECT_EQ(held().trainee.incarnation, "first");

  server().ready("a run");
  EXPECT_TRUE(held().is_ready);
  server().end("a run", Status(ErrorCode::data_loss, "a bad record"));
  EXPECT_EQ(held().last_words.error().code(), ErrorCode::data_loss);
  EXPECT_STREQ(held().last_words.error().what(), "a bad record");
}

TEST_P(Parameters, SayWhatTheyHave) {
  begin({3});
  held().entered = {.run = "run", .step = 5, .pushes = {1, 0, 9}, .feed = {"there", {1, 2}}};
  const towers::Entered entered = server().enter(kWorker, {{"model", "m"}}, 5s);
  EXPECT_EQ(entered.run, "run");
  EXPECT_EQ(entered.step, 5U);
  EXPECT_EQ(entered.pushes, (towers::Pushes{1, 0, 9}));
  EXPECT_EQ(entered.feed.position, "there");
  EXPECT_EQ(entered.feed.pushes, (towers::Pushes{1, 2}));
  EXPECT_FALSE(entered.finished);
  held().entered.finished = true;
  EXPECT_TRUE(server().enter(kWorker, {{"model", "m"}}, 5s).finished);
  EXPECT_EQ(held().told, (std::map<std::string, std::string>{{"model", "m"}}));
  EXPECT_EQ(held().trainee.process, 3);
  EXPECT_EQ(held().trainee.incarnation, kWorker.incarnation);

  held().head = {.step = 8, .pushes = {3, 4}, .feeds = {{"a", {1}}, {"b", {2, 3}}}};
  for (const bool here : {false, true}) {
    const towers::SnapshotHead head = here ? server().keep_here("run") : server().keep("run");
    EXPECT_EQ(head.step, 8U);
    EXPECT_EQ(head.pushes, (towers::Pushes{3, 4}));
    ASSERT_EQ(head.feeds.size(), 2U);
    EXPECT_EQ(head.feeds[1].position, "b");
    EXPECT_EQ(head.feeds[1].pushes, (towers::Pushes{2, 3}));
  }
  held().counted = {1, 2, 3, 4, {5, 6}, 7, 12, 8, {9, -1}, true, true, 10, 11};
  const towers::ServerFigures figures = server().figures("run");
  EXPECT_EQ(figures.step + figures.applied + figures.dropped + figures.repeated, 10U);
  EXPECT_EQ(figures.staleness, (std::vector<std::uint64_t>{5, 6}));
  EXPECT_EQ(figures.pending, 7U);
  EXPECT_EQ(figures.losses, 8U);
  EXPECT_EQ(figures.lost, (std::vector<int>{9, -1}));
  EXPECT_EQ(figures.rows, 12U);
  EXPECT_TRUE(figures.fixed);
  EXPECT_TRUE(figures.others_ended);
  EXPECT_EQ(figures.left, 10);
  EXPECT_EQ(figures.lost_ms, 11U);

  const towers::Update update{.step = 4,
                              .contributions = {{.replica = 1, .number = 2, .rows = 3},
                                                {.replica = 4, .number = 5, .rows = 6}},
                              .scale = 0.25F};
  const std::vector<towers::SquareSum> norms = server().norms("run", update);
  ASSERT_EQ(norms.size(), 2U);
  EXPECT_EQ(norms[0].variable, 7U);
  EXPECT_EQ(norms[0].squares, 0.1);
  EXPECT_EQ(norms[1].squares, 1e-300);
  held().last_update = {};
  server().apply("run", update);
  EXPECT_EQ(held().last_update.scale, 0.25F);
  ASSERT_EQ(held().last_update.contributions.size(), 2U);
  EXPECT_EQ(held().last_update.contributions[1].rows, 6);

  server().keep_feed(kWorker, {"position", {1}});
  EXPECT_EQ(held().kept_feed.position, "position");
  server().leave(kWorker, 2);
  EXPECT_EQ(held().left, std::vector<int>{2});
}

TEST_P(Parameters, CarryValuesAsTheyAre) {
  constexpr std::size_t kPart = kBytesOfPart / sizeof(float);
  std::vector<std::int64_t> counts{0, 1, kPart - 1, kPart, kPart + 1, 3 * kPart + 5};
  for (int i = 0; i < 300; ++i) counts.push_back(i % 7);  // many of one message
  begin(counts);
  std::vector<std::vector<float>> pushed;
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto number = static_cast<std::uint32_t>(i);
    pushed.push_back(values_of(static_cast<std::size_t>(counts[i]), static_cast<float>(i)));
    server().give("run", -1, {number, pushed[i].data(), pushed[i].size()});
    server().give("run", 0, {number, pushed[i].data(), pushed[i].size()});
  }
  for (std::size_t i = 0; i < counts.size(); ++i) {
    EXPECT_EQ(bits_of(held().values[static_cast<std::uint32_t>(i)]), bits_of(pushed[i])) << i;
    pieces.push_back({static_cast<std::uint32_t>(i), pushed[i].data(), pushed[i].size()});
  }
  Taken taken;
  taken.unwanted = 2;
  const towers::Pushed done = server().push(
      kWorker, {.replica = 2, .number = 1, .seen = 0, .rows = 64, .pieces = pieces}, taken);
  EXPECT_EQ(done.verdict, PushVerdict::applied);
  EXPECT_EQ(done.step, 1U);
  EXPECT_EQ(done.staleness, 1U);
  EXPECT_EQ(held().last_push.rows, 64);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto number = static_cast<std::uint32_t>(i);
    EXPECT_EQ(taken.asked[number], 1);
    if (taken.unwanted != static_cast<std::int64_t>(i)) {
      EXPECT_EQ(bits_of(taken.values[number]), bits_of(held().values[number])) << i;
    }
  }
  Taken optimizers;
  server().snapshot("run", 0, optimizers);
  EXPECT_EQ(optimizers.values.size(), counts.size());
  EXPECT_EQ(bits_of(optimizers.values[5]), bits_of(pushed[5]));
  Taken nothing;
  EXPECT_EQ(server().pull(kWorker, 1, nothing), 1U);
  EXPECT_TRUE(nothing.values.empty());
}

TEST_P(Parameters, CarryRows) {
  begin({});
  held().gives = false;
  const std::vector<float> values = values_of(24, 100);
  const std::vector<std::int64_t> rows{0, 41, 99};
  Taken taken;
  towers::Push push{.number = 1, .rows = 3};
  push.pieces = {{kTable, values.data(), values.size(), rows.data(), rows.size()}};
  server().push(kWorker, push, taken);
  EXPECT_TRUE(taken.values.empty());
  std::vector<float> again(24, -1);
  server().pull_rows(kWorker, kTable, rows, again.data(), again.size());
  EXPECT_EQ(bits_of(again), bits_of(values));
  // None is not all.
  push.number = 2;
  push.pieces = {{kTable, values.data(), 0, rows.data(), 0}};
  EXPECT_EQ(server().push(kWorker, push, taken).step, 2U);
  server().pull_rows(kWorker, kTable, {}, nullptr, 0);
  EXPECT_EQ(held().values[kTable][8 * 41], values[8]);
}

TEST_P(Parameters, TellPushesApart) {
  begin({4});
  const std::vector<float> ones(4, 1);
  Taken taken;
  towers::Push push{.replica = 5, .number = 1, .pieces = {{0, ones.data(), 4}}};
  for (const PushVerdict verdict :
       {PushVerdict::applied, PushVerdict::dropped, PushVerdict::pending, PushVerdict::finished}) {
    held().verdict = verdict;
    push.decided = verdict;
    EXPECT_EQ(server().push(kWorker, push, taken).verdict, verdict);
    EXPECT_EQ(held().last_push.decided, verdict);
    push.decided.reset();
    EXPECT_EQ(server().push(kWorker, push, taken).verdict, PushVerdict::repeated);
    EXPECT_EQ(held().last_push.decided, std::nullopt);
    ++push.number;
  }
  EXPECT_EQ(held().values[0], std::vector<float>(4, 4));
  const towers::Pushed committed = server().commit(kWorker, 5, 6, 7, 8);
  EXPECT_EQ(committed.verdict, PushVerdict::dropped);
  EXPECT_EQ(committed.staleness, 3U);
  EXPECT_EQ(held().last_push.number, 6U);
  EXPECT_EQ(held().last_push.seen, 7U);
}

TEST_P(Parameters, WaitNoLongerThanTheyAreTold) {
  EXPECT_NE(error_of([&] { server().enter(kWorker, {}, 150ms); }), "");
  std::jthread later([&] {
    std::this_thread::sleep_for(200ms);
    begin({});
  });
  EXPECT_EQ(error_of([&] { server().enter(kWorker, {}, 20s); }), "");
  later.join();
  std::uint64_t step = 0;
  bool finished = true;
  EXPECT_FALSE(server().take(kWorker, 0, 100ms, step, finished));
  EXPECT_FALSE(finished);
  std::jthread token([&] {
    std::this_thread::sleep_for(700ms);
    held().give_token(0);
  });
  EXPECT_TRUE(server().take(kWorker, 0, 20s, step, finished));
}

TEST_P(Parameters, Errors) {
  begin({1});
  for (int code = 0; code <= static_cast<int>(ErrorCode::mismatch); ++code) {
    held().fail(Status(static_cast<ErrorCode>(code), "worker 2 was lost: \xff"));
    try {
      server().commit(kWorker, 0, 1, 1, 1);
      FAIL() << code;
    } catch (const Error& error) {
      EXPECT_EQ(static_cast<int>(error.code()), code);
      EXPECT_STREQ(error.what(), "worker 2 was lost: \xff");
    }
    held().fail({});
    if (GetParam() != Way::direct) break;  // the first ended it
  }
}

TEST_P(Parameters, WaitsAtTheEndOfTheRun) {
  begin({1});
  if (GetParam() != Way::direct) server().enter(kWorker, {}, 5s);
  std::jthread later([&] {
    std::this_thread::sleep_for(100ms);
    EXPECT_TRUE(server().beat(kChief, {}).ok());
    EXPECT_EQ(std::string(server().beat(kChief, Status(ErrorCode::user, "chief")).error().what()),
              "chief");
  });
  std::uint64_t step = 0;
  bool finished = false;
  EXPECT_EQ(error_of([&] { server().take(kWorker, 0, 50s, step, finished); }), "chief");
  later.join();
  EXPECT_EQ(error_of([&] { server().keep("run"); }), "chief");
  EXPECT_EQ(error_of([&] { server().end("run", {}); }), "");
}

TEST_P(Parameters, TakePushesOfManyAtOnce) {
  constexpr int kThreads = 6;
  constexpr std::size_t kCount = 70'000;
  begin({static_cast<std::int64_t>(kCount)});
  {
    std::vector<std::jthread> threads;
    for (int replica = 0; replica < kThreads; ++replica)
      threads.emplace_back([&, replica] {
        const std::vector<float> ones(kCount, 1);
        Taken taken;
        for (std::uint64_t number = 1; number <= 10; ++number)
          server().push(
              kWorker, {.replica = replica, .number = number, .pieces = {{0, ones.data(), kCount}}},
              taken);
      });
  }
  EXPECT_EQ(held().step, 10U * kThreads);
  EXPECT_EQ(held().values[0], std::vector<float>(kCount, 10 * kThreads));
}

INSTANTIATE_TEST_SUITE_P(Over, Parameters, testing::Values(Way::direct, Way::grpc, Way::tls),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace penstock::cluster
