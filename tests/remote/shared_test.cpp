// Several runs over a worker that keeps elements: each is made once, and no byte changes.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/penstock.h>
#include <penstock/serve.h>

#include "pipeline/remote/transport.h"
#include "tests/remote/loop_transport.h"
#include "tests/support/errors.h"
#include "tests/support/time_limit.h"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;

/// Counts, per element, how often it was made.
struct Made {
  std::mutex mutex;
  std::map<std::int64_t, int> times;
  std::function<void(std::int64_t value, int time)> then;  // on the worker's thread

  void note(std::int64_t value) {
    int time = 0;
    {
      const std::lock_guard lock(mutex);
      time = ++times[value];
    }
    if (then) then(value, time);
  }
  std::int64_t all() {
    const std::lock_guard lock(mutex);
    std::int64_t sum = 0;
    for (const auto& [value, count] : times) sum += count;
    return sum;
  }
  std::int64_t most() {
    const std::lock_guard lock(mutex);
    int most = 0;
    for (const auto& [value, count] : times) most = std::max(most, count);
    return most;
  }
};

/// Numbers, random numbers and texts of up to 300 bytes.
Dataset made_of(std::int64_t count, Made& made, std::chrono::microseconds each = 20us) {
  return range(count)
      .shuffle({.seed = 3})
      .map(
          [&made, each](Element e, Rng& rng) {
            const auto value = e["value"].item<std::int64_t>();
            made.note(value);
            if (each > 0us) std::this_thread::sleep_for(each);
            Element out;
            out.set("value", Tensor::scalar(value));
            out.set("drawn", Tensor::of<float>({2}, {static_cast<float>(rng.uniform()), 1}));
            out.set("text",
                    Tensor::copy_bytes(std::string(static_cast<std::size_t>(value % 300), 'x') +
                                       std::to_string(value)));
            return out;
          },
          {.name = "make",
           .output = Spec({{"value", DType::i64, Shape()},
                           {"drawn", DType::f32, Shape({2})},
                           {"text", DType::bytes, Shape()}})});
}

/// What depends on values: verdicts, and elements that a window holds.
Dataset of_verdicts(const Dataset& dataset) {
  return dataset
      .filter([](const Element& e) { return e["value"].item<std::int64_t>() % 3 != 0; }, "third")
      .map(
          [](Element e) {
            e.set("twice", Tensor::scalar(2 * e["value"].item<std::int64_t>()));
            return e;
          },
          {.name = "twice",
           .output = Spec({{"value", DType::i64, Shape()},
                           {"drawn", DType::f32, Shape({2})},
                           {"text", DType::bytes, Shape()},
                           {"twice", DType::i64, Shape()}})});
}

std::string line(const Element& batch) {
  std::string text;
  for (std::int64_t i = 0; i < batch.valid_rows; ++i) {
    const auto at = static_cast<std::size_t>(i);
    text += std::to_string(batch["value"].values<std::int64_t>()[at]) + " " +
            std::to_string(batch["drawn"].values<float>()[2 * at]) + " " +
            std::string(batch["text"].bytes_at(i)) + ";";
  }
  return text;
}

struct Ran {
  std::vector<std::string> lines;
  Stats stats;
};

class Trainer {
 public:
  Trainer(const Dataset& dataset, RunOptions options)
      : iterator_(dataset.iterate(with_seed(options))) {}
  /// Up to so many batches. False at the end.
  bool resume(std::size_t batches = SIZE_MAX) {
    for (std::size_t i = 0; i < batches; ++i) {
      Next next = iterator_.next();
      if (next.is_end()) return false;
      ran_.lines.push_back(next.is_error() ? next.error().what() : line(*next));
    }
    return true;
  }
  Ran end() {
    resume();
    ran_.stats = iterator_.stats();
    return std::move(ran_);
  }

 private:
  static RunOptions with_seed(RunOptions options) {
    if (options.seed == 0) options.seed = 11;
    return options;
  }
  Iterator iterator_;
  Ran ran_;
};

class Shared : public testing::Test {
 protected:
  void serve_by(const Dataset& dataset, std::uint64_t cache_bytes, int threads = 2) {
    remote::use_worker_transport(loop_transport());
    server_ =
        serve(dataset, {.threads = threads, .memory_bytes = 256 << 20, .cache_bytes = cache_bytes});
  }
  RunOptions options(int threads = 1) const {
    RunOptions options{.threads = threads};
    options.workers.addresses = {server_->address()};
    options.workers.local_threads = 0;
    return options;
  }
  static std::uint64_t shared(const Ran& ran) { return ran.stats.workers[0].shared; }

  std::unique_ptr<InputServer> server_;
  const TimeLimit limit_{60};
};

TEST_F(Shared, ElementsOfTwoRuns) {
  constexpr std::int64_t kCount = 1500;
  Made made;
  for (const bool verdicts : {false, true}) {
    SCOPED_TRACE(verdicts ? "of verdicts" : "of rows");
    const Dataset elements = verdicts ? of_verdicts(made_of(kCount, made)) : made_of(kCount, made);
    const Dataset dataset = elements.batch(8);
    const Ran alone = Trainer(dataset, {.threads = 1}).end();
    made.times.clear();
    serve_by(dataset, 64 << 20);
    std::vector<Ran> ran(2);
    {
      // Both are there before either ends, since elements are kept for runs that are.
      Trainer first(dataset, options());
      Trainer second(dataset, options());
      first.resume(1);
      second.resume(1);
      std::jthread trainer([&] { ran[0] = first.end(); });
      ran[1] = second.end();
    }
    for (const Ran& one : ran) EXPECT_EQ(one.lines, alone.lines);
    EXPECT_EQ(made.most(), 1);
    EXPECT_EQ(made.all(), kCount);
    const ServeStats stats = server_->stats();
    EXPECT_EQ(stats.cache_hits, stats.cache_misses);
    EXPECT_EQ(stats.cache_hits, shared(ran[0]) + shared(ran[1]));
    EXPECT_GE(stats.cache_hits, static_cast<std::uint64_t>(kCount));
    std::printf("figure: %lld elements for two runs, made %lld times, hits %llu, misses %llu\n",
                static_cast<long long>(kCount), static_cast<long long>(made.all()),
                static_cast<unsigned long long>(stats.cache_hits),
                static_cast<unsigned long long>(stats.cache_misses));
    server_.reset();
  }
}

TEST_F(Shared, LaterRun) {
  Made made;
  const Dataset dataset = made_of(800, made, 0us).batch(8);
  const Ran alone = Trainer(dataset, {.threads = 1}).end();
  made.times.clear();
  serve_by(dataset, 64 << 20);
  Trainer first(dataset, options());
  first.resume(99);
  const Ran second = Trainer(dataset, options(2)).end();
  EXPECT_EQ(first.end().lines, alone.lines);
  EXPECT_EQ(second.lines, alone.lines);
  EXPECT_EQ(made.all(), 800);
  EXPECT_GE(shared(second), 700U);
}

TEST_F(Shared, OtherSeedsAndEpochs) {
  Made made;
  const Dataset dataset = made_of(200, made, 0us).batch(8);
  serve_by(dataset, 64 << 20);
  Trainer first(dataset, options());
  first.resume();
  RunOptions other = options();
  other.seed = 12;
  Trainer second(dataset, other);
  const Ran ran = second.end();
  EXPECT_EQ(made.all(), 400);
  EXPECT_EQ(shared(ran), 0U);
  EXPECT_NE(first.end().lines, ran.lines);
}

TEST_F(Shared, LittleRoom) {
  Made made;
  const Dataset dataset = made_of(1500, made).batch(8);
  const Ran alone = Trainer(dataset, {.threads = 1}).end();
  made.times.clear();
  constexpr std::uint64_t kRoom = 64 << 10;
  serve_by(dataset, kRoom);
  std::vector<Ran> ran(3);
  {
    std::vector<std::jthread> trainers;
    for (std::size_t i = 0; i < ran.size(); ++i)
      trainers.emplace_back([&, i] {
        std::this_thread::sleep_for(i * 20ms);
        ran[i] = Trainer(dataset, options()).end();
      });
  }
  for (const Ran& one : ran) EXPECT_EQ(one.lines, alone.lines);
  const ServeStats stats = server_->stats();
  EXPECT_GT(stats.cache_evicted, 0U);
  EXPECT_LE(stats.cache_peak_bytes, kRoom);
  EXPECT_GE(stats.cache_peak_bytes, kRoom / 2);
  EXPECT_GE(made.all(), 1500);
  EXPECT_LE(made.all(), 4500);
  std::printf("figure: 3 runs of 1500 elements, 64 KiB: made %lld, %llu hits, %llu evicted\n",
              static_cast<long long>(made.all()), static_cast<unsigned long long>(stats.cache_hits),
              static_cast<unsigned long long>(stats.cache_evicted));
}

TEST_F(Shared, KilledRun) {
  Made made;
  const Dataset dataset = made_of(1200, made, 100us).batch(8);
  const Ran alone = Trainer(dataset, {.threads = 1}).end();
  serve_by(dataset, 64 << 20);
  for (int kills = 0; kills < 5; ++kills) {
    auto first = std::make_unique<Trainer>(dataset, options());
    std::optional<Ran> second;
    std::jthread other([&] { second = Trainer(dataset, options()).end(); });
    first->resume(static_cast<std::size_t>(10 + 20 * kills));
    // With groups under way that the other waits for.
    first.reset();
    other.join();
    EXPECT_EQ(second->lines, alone.lines);
  }
}

TEST_F(Shared, UnfinishedElementsOfOthers) {
  Made made;
  std::mutex mutex;
  std::condition_variable changed;
  bool began_to_wait = false;
  bool ended = false;
  made.then = [&](std::int64_t value, int time) {
    // The first who makes it, on a thread of the first run, is stuck.
    if (value != 77 || time > 1) return;
    std::unique_lock lock(mutex);
    began_to_wait = true;
    changed.notify_all();
    changed.wait_for(lock, 30s, [&] { return ended; });
  };
  const Dataset dataset = made_of(400, made, 0us).batch(8);
  serve_by(dataset, 64 << 20);
  std::optional<Ran> first;
  std::jthread stuck([&] { first = Trainer(dataset, options()).end(); });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return began_to_wait; });  // else the second run might be stuck
  }
  const auto began = std::chrono::steady_clock::now();
  const Ran second = Trainer(dataset, options()).end();
  const auto took = std::chrono::steady_clock::now() - began;
  {
    const std::lock_guard lock(mutex);
    ended = true;
  }
  changed.notify_all();
  stuck.join();
  EXPECT_EQ(second.lines.size(), 50U);
  EXPECT_EQ(first->lines, second.lines);
  EXPECT_LT(took, 20s);
}

TEST_F(Shared, FailedElements) {
  Made made;
  made.then = [](std::int64_t value, int) {
    if (value % 50 == 7) throw Error(ErrorCode::data_loss, "bad " + std::to_string(value));
  };
  const Dataset dataset = made_of(400, made, 0us).batch(8);
  const Ran alone = Trainer(dataset, {.threads = 1}).end();
  made.times.clear();
  serve_by(dataset, 64 << 20);
  Trainer first(dataset, options());
  first.resume(20);
  const Ran second = Trainer(dataset, options()).end();
  EXPECT_EQ(second.lines, alone.lines);
  EXPECT_EQ(first.end().lines, alone.lines);
  EXPECT_LE(made.all(), 400 + 8);
}

TEST_F(Shared, CacheOfAllMemory) {
  Made made;
  expect_error(ErrorCode::resource_exhausted, "beside its cache of 268435456,",
               [&] { serve_by(made_of(8, made).batch(4), 256 << 20); });
}

}  // namespace
}  // namespace penstock::test
