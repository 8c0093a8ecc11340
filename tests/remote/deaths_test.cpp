// Workers that die, freeze, come and lie: what a run gives is the same, and in time.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/penstock.h>

#include "pipeline/remote/packed.h"
#include "tests/remote/loop_workers.h"
#include "tests/support/errors.h"
#include "tests/support/time_limit.h"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

/// Numbers, random numbers and texts, in batches; each element takes `each`, while which its thread
/// waits.
Dataset work(std::int64_t count, std::chrono::microseconds each = 0us) {
  return range(count)
      .shuffle({.seed = 3})
      .map(
          [each](Element e, Rng& rng) {
            if (each > 0us) std::this_thread::sleep_for(each);
            const auto value = e["value"].item<std::int64_t>();
            Element out;
            out.set("value", Tensor::scalar(value));
            out.set("drawn", Tensor::scalar(static_cast<float>(rng.uniform())));
            out.set("text",
                    Tensor::copy_bytes(std::string(static_cast<std::size_t>(value % 40), 'x') +
                                       std::to_string(value)));
            return out;
          },
          {.name = "work",
           .output = Spec({{"value", DType::i64, Shape()},
                           {"drawn", DType::f32, Shape()},
                           {"text", DType::bytes, Shape()}})})
      .batch(8);
}

std::string line(const Element& batch) {
  std::string text;
  for (std::int64_t i = 0; i < batch.valid_rows; ++i)
    text += std::to_string(batch["value"].values<std::int64_t>()[static_cast<std::size_t>(i)]) +
            " " + std::to_string(batch["drawn"].values<float>()[static_cast<std::size_t>(i)]) +
            " " + std::string(batch["text"].bytes_at(i)) + ";";
  return text;
}

struct Ran {
  std::vector<std::string> lines;
  Stats stats;
  std::chrono::milliseconds longest{0};  ///< that `next` took
};

Ran run(const Dataset& dataset, RunOptions options) {
  options.seed = 11;
  Iterator iterator = dataset.iterate(options);
  Ran ran;
  for (;;) {
    const auto start = steady_clock::now();
    Next next = iterator.next();
    ran.longest = std::max(ran.longest, std::chrono::duration_cast<std::chrono::milliseconds>(
                                            steady_clock::now() - start));
    if (next.is_end()) break;
    ran.lines.push_back(next.is_error() ? next.error().what() : line(*next));
  }
  ran.stats = iterator.stats();
  return ran;
}

/// PENSTOCK_WORKER_DEATHS; a hundred if it does not say.
int deaths_wanted() {
  const char* const said = std::getenv("PENSTOCK_WORKER_DEATHS");
  return said != nullptr ? std::atoi(said) : 100;
}

class Deaths : public testing::Test {
 protected:
  const TimeLimit limit_{static_cast<unsigned>(120 + deaths_wanted() / 10)};
};

TEST_F(Deaths, ChangeNoByte) {
  const Dataset dataset = work(4000, 100us);
  const Ran alone = run(dataset, {.threads = 1});
  ASSERT_EQ(alone.lines.size(), 500U);
  ASSERT_EQ(alone.stats.errors.count, 0U);
  LoopWorkers workers(dataset, 3, 2);
  std::atomic<int> deaths{0};
  std::jthread reaper(
      [&](const std::stop_token& stop) { workers.trouble(stop, 5, 20, [&] { ++deaths; }); });
  const int wanted = deaths_wanted();
  std::size_t batches = 0;
  std::chrono::milliseconds longest{0};
  for (int round = 0; round < 2 || deaths < wanted; ++round) {
    const int local = round % 2;
    RunOptions options{.threads = 1};
    options.workers = workers.options(local);
    options.workers.timeout = 10s;
    const Ran ran = run(dataset, options);
    ASSERT_EQ(ran.lines, alone.lines) << "after " << deaths << " deaths";
    batches += ran.lines.size();
    longest = std::max(longest, ran.longest);
    EXPECT_LE(ran.longest, options.workers.timeout) << "with " << local << " local threads";
    EXPECT_GT(ran.stats.groups_of_workers, 0U);
  }
  reaper.request_stop();
  std::printf(
      "figure: %d kills and freezes of workers, in runs of %lld batches; batches that were "
      "missing, repeated, out of order or of other bytes 0; the longest pause %lld ms\n",
      deaths.load(), static_cast<long long>(batches), static_cast<long long>(longest.count()));
}

TEST_F(Deaths, OfAllLeaveTheRestToThisProcess) {
  const Dataset dataset = work(800, 200us);
  const Ran alone = run(dataset, {.threads = 1});
  LoopWorkers workers(dataset, 2);
  RunOptions options{.threads = 1};
  options.workers = workers.options(1);
  std::jthread reaper([&] {
    std::this_thread::sleep_for(30ms);
    workers.kill(0);
    workers.kill(1);
  });
  const Ran ran = run(dataset, options);
  EXPECT_EQ(ran.lines, alone.lines);
  EXPECT_GT(ran.stats.groups_made_here, 0U);
}

TEST_F(Deaths, OfAllEndARunWithoutThreadsInTime) {
  const Dataset dataset = work(4000, 200us);
  LoopWorkers workers(dataset, 1);
  RunOptions options{.threads = 1};
  options.workers = workers.options(0);
  options.workers.timeout = 200ms;
  std::jthread reaper([&] {
    std::this_thread::sleep_for(20ms);
    workers.kill(0);
  });
  const Ran ran = run(dataset, options);
  ASSERT_FALSE(ran.lines.empty());
  EXPECT_THAT(ran.lines.back(), testing::HasSubstr("no input worker was available for 200 ms"));
  EXPECT_THAT(ran.lines.back(), testing::HasSubstr(workers.addresses()[0]));
  EXPECT_LE(ran.longest, 2s);
}

TEST_F(Deaths, OfAFrozenOneIsNotWaitedFor) {
  const Dataset dataset = work(2000, 100us);
  const Ran alone = run(dataset, {.threads = 1});
  LoopWorkers workers(dataset, 2);
  RunOptions options{.threads = 1};
  options.workers = workers.options(0);
  options.workers.timeout = 60s;
  std::uint64_t hedged = 0;
  // It has no group yet, or none any more, where the moment is a wrong one.
  for (std::chrono::milliseconds moment = 40ms; hedged == 0 && moment < 3s; moment *= 2) {
    std::jthread freezer([&] {
      std::this_thread::sleep_for(moment);
      set_loop(workers.addresses()[0], Loop::frozen);
    });
    const Ran ran = run(dataset, options);
    EXPECT_EQ(ran.lines, alone.lines);
    EXPECT_LE(ran.longest, 3s);
    hedged = ran.stats.workers[0].hedged;
    freezer.join();
    set_loop(workers.addresses()[0], Loop::works);
  }
  EXPECT_GT(hedged, 0U);
}

TEST_F(Deaths, DamagedAnswers) {
  const Dataset dataset = work(800);
  const Ran alone = run(dataset, {.threads = 1});
  LoopWorkers workers(dataset, 2);
  corrupt_loop(workers.addresses()[1], true);
  RunOptions options{.threads = 1};
  options.workers = workers.options(0);
  const Ran ran = run(dataset, options);
  EXPECT_EQ(ran.lines, alone.lines);
  EXPECT_FALSE(ran.stats.workers[1].connected);
  EXPECT_THAT(ran.stats.workers[1].problem, testing::HasSubstr("checksum"));
  EXPECT_EQ(ran.stats.workers[1].groups, 0U);
}

/// Rows of 4 KB that repeat themselves.
Dataset repeating(std::int64_t count) {
  return range(count)
      .map(
          [](Element e, Rng&) {
            const auto value = e["value"].item<std::int64_t>();
            std::string row(4096, '.');
            for (std::size_t i = 0; i < row.size(); i += 16 + static_cast<std::size_t>(value % 9))
              row[i] = static_cast<char>('a' + value % 26);
            Element out;
            out.set("value", Tensor::scalar(value));
            out.set("drawn", Tensor::scalar(0.5F));
            out.set("text", Tensor::copy_bytes(row));
            return out;
          },
          {.name = "repeating",
           .output = Spec({{"value", DType::i64, Shape()},
                           {"drawn", DType::f32, Shape()},
                           {"text", DType::bytes, Shape()}})})
      .batch(8);
}

TEST_F(Deaths, ChangeNoByteOfWhatIsCompressed) {
  if (!remote::has_lz4()) GTEST_SKIP() << "this build has no LZ4";
  const Dataset dataset = repeating(3000);
  const Ran alone = run(dataset, {.threads = 1});
  LoopWorkers workers(dataset, 2);
  RunOptions options{.threads = 1};
  options.workers = workers.options(0);
  options.workers.wire = WorkerWire::lz4;
  std::jthread reaper([&] {
    for (int i = 0; i < 4; ++i) {
      std::this_thread::sleep_for(10ms);
      workers.kill(1);
      workers.revive(1);
    }
  });
  const Ran ran = run(dataset, options);
  EXPECT_EQ(ran.lines, alone.lines);
  const WorkerStats& first = ran.stats.workers[0];
  EXPECT_GT(first.groups, 0U);
  EXPECT_LT(3 * first.received_bytes, first.unpacked_bytes);
}

TEST_F(Deaths, DamagedCompressedAnswers) {
  if (!remote::has_lz4()) GTEST_SKIP() << "this build has no LZ4";
  const Dataset dataset = repeating(400);
  const Ran alone = run(dataset, {.threads = 1});
  LoopWorkers workers(dataset, 2);
  corrupt_loop(workers.addresses()[1], true);
  RunOptions options{.threads = 1};
  options.workers = workers.options(0);
  options.workers.wire = WorkerWire::lz4;
  const Ran ran = run(dataset, options);
  EXPECT_EQ(ran.lines, alone.lines);
  EXPECT_FALSE(ran.stats.workers[1].connected);
  EXPECT_THAT(ran.stats.workers[1].problem, testing::HasSubstr("a compressed block"));
  EXPECT_EQ(ran.stats.workers[1].groups, 0U);
}

TEST_F(Deaths, DrainingWorker) {
  const Dataset dataset = work(3000, 100us);
  const Ran alone = run(dataset, {.threads = 1});
  LoopWorkers workers(dataset, 2);
  RunOptions options{.threads = 1};
  options.workers = workers.options(0);
  std::atomic<bool> drained{false};
  std::jthread drainer([&] {
    std::this_thread::sleep_for(30ms);
    workers[0].drain();
    while (!workers[0].drained()) std::this_thread::sleep_for(1ms);
    drained = true;
  });
  const Ran ran = run(dataset, options);
  EXPECT_EQ(ran.lines, alone.lines);
  EXPECT_EQ(ran.stats.workers[0].lost, 0U);
  EXPECT_TRUE(drained);
}

// A worker has no consumer of its own; that a run elsewhere waits counts as one.
TEST_F(Deaths, ThreadsOfAWorker) {
  static std::atomic<int> now;
  static std::atomic<int> most;
  const Dataset dataset = range(4000)
                              .map(
                                  [](Element e, Rng&) {
                                    const int here = ++now;
                                    for (int seen = most; seen < here;)
                                      if (most.compare_exchange_weak(seen, here)) break;
                                    std::this_thread::sleep_for(500us);
                                    --now;
                                    return e;
                                  },
                                  {.name = "count"})
                              .batch(8);
  const LoopWorkers workers(dataset, 1, 4);
  Iterator iterator = dataset.iterate({.seed = 1, .workers = workers.options()});
  while (most < 4 && !iterator.next().is_end()) continue;
  EXPECT_EQ(most, 4);
}

TEST_F(Deaths, WorkerOfOtherData) {
  LoopWorkers workers(work(100).take(3));
  RunOptions options{.threads = 1};
  options.workers = workers.options(0);
  const Ran ran = run(work(100), options);
  ASSERT_EQ(ran.lines.size(), 1U);
  EXPECT_THAT(ran.lines[0], testing::HasSubstr("another graph, or other data"));
  EXPECT_THAT(ran.lines[0], testing::HasSubstr("number of stages"));
  // With threads of its own the run continues without it, and says so.
  options.workers = workers.options(1);
  options.seed = 11;
  Iterator iterator = work(100).iterate(options);
  std::string problem;
  for (int i = 0; i < 2500 && problem.empty(); ++i) {
    problem = iterator.stats().workers[0].problem;
    std::this_thread::sleep_for(2ms);
  }
  EXPECT_THAT(problem, testing::HasSubstr("another graph"));
  std::vector<std::string> lines;
  while (Next next = iterator.next()) lines.push_back(line(*next));
  EXPECT_EQ(lines, run(work(100), {.threads = 1}).lines);
}

TEST_F(Deaths, OfARunAreNoWorkersEnd) {
  const Dataset dataset = work(2000, 100us);
  LoopWorkers workers(dataset, 1);
  RunOptions options{.threads = 1};
  options.workers = workers.options(0);
  for (int i = 0; i < 5; ++i) {
    Iterator iterator = dataset.iterate(options);
    for (int k = 0; k < i; ++k) (void)iterator.next();
  }
  EXPECT_EQ(run(dataset, options).lines, run(dataset, {.threads = 1}).lines);
}

}  // namespace
}  // namespace penstock::test
