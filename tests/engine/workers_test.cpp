#include "pipeline/engine/make/thread_pool.h"

#include <gtest/gtest.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <pthread.h>

#include <array>
#include <latch>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include <penstock/penstock.h>
#include <penstock/plan.h>

#include "pipeline/engine/make/compute_policy.h"
#include "pipeline/engine/make/read_policy.h"
#include "pipeline/engine/run/run.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;

struct Site {
  explicit Site(int threads)
      : workers(std::make_unique<ThreadPool>(
            std::make_unique<ComputePolicy>(threads, false, consumers, log))) {}
  std::atomic<int> consumers{0};
  std::shared_ptr<TuningLog> log = std::make_shared<TuningLog>();
  const std::unique_ptr<ThreadPool> workers;
};

TEST(ComputePolicy, ConsumerThatDoesNotWait) {
  Site site(4);
  std::atomic<int> at_once{0};
  std::atomic<int> most{0};
  std::latch done(20);
  for (int i = 0; i < 20; ++i) {
    site.workers->submit([&] {
      const int now = ++at_once;
      if (now > most) most = now;
      std::this_thread::sleep_for(milliseconds(1));
      --at_once;
      done.count_down();
    });
  }
  done.wait();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(site.workers->threads(), 1);
  EXPECT_TRUE(site.log->decisions().empty());
}

TEST(ComputePolicy, NamesOfThreads) {
  const auto name_of_this_thread = [] {
    std::array<char, 16> name{};
    ::pthread_getname_np(::pthread_self(), name.data(), name.size());
    return std::string(name.data());
  };
  std::string name;
  std::latch done(1);
  // Started by a thread of a library, whose name it would have else.
  std::thread([&] {
    ::pthread_setname_np(::pthread_self(), "nexting_thread");
    Site site(1);
    site.workers->submit([&] {
      name = name_of_this_thread();
      done.count_down();
    });
    done.wait();
  }).join();
  EXPECT_EQ(name, "penstock-work");
}

TEST(ComputePolicy, ThreadsOfCallablesThatUseOneTBB) {
  Site site(2);
  site.consumers = 1;
  std::mutex mutex;
  std::set<std::thread::id> ours;
  std::set<std::thread::id> inner;
  std::latch done(40);
  for (int i = 0; i < 40; ++i) {
    site.workers->submit([&] {
      EXPECT_EQ(tbb::this_task_arena::max_concurrency(), 2);
      tbb::parallel_for(0, 64, [&](int) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        const std::lock_guard lock(mutex);
        inner.insert(std::this_thread::get_id());
      });
      {
        const std::lock_guard lock(mutex);
        ours.insert(std::this_thread::get_id());
      }
      done.count_down();
    });
  }
  done.wait();
  EXPECT_LE(ours.size(), 2U);
  for (const std::thread::id& id : inner) EXPECT_TRUE(ours.contains(id));
}

TEST(ComputePolicy, ConsumerThatWaits) {
  Site site(3);
  site.consumers = 1;
  std::latch done(60);
  for (int i = 0; i < 60; ++i) {
    site.workers->submit([&] {
      std::this_thread::sleep_for(milliseconds(2));
      done.count_down();
    });
  }
  done.wait();
  EXPECT_EQ(site.workers->threads(), 3);
  const std::vector<Decision> decisions = site.log->decisions();
  ASSERT_EQ(decisions.size(), 2U);
  EXPECT_EQ(decisions[0].knob, "threads");
  EXPECT_EQ(decisions[0].from, 1U);
  EXPECT_EQ(decisions[1].to, 3U);
  EXPECT_NE(decisions[0].reason.find("waited for one"), std::string::npos) << decisions[0].reason;
}

TEST(ComputePolicy, AnotherThreadForLongWork) {
  Site site(2);
  site.consumers = 1;
  std::latch both(2);  // neither ends before the other began
  std::latch done(2);
  for (int i = 0; i < 2; ++i) {
    site.workers->submit([&] {
      both.arrive_and_wait();
      done.count_down();
    });
  }
  std::this_thread::sleep_for(milliseconds(3));
  site.workers->look();
  done.wait();
  EXPECT_EQ(site.workers->threads(), 2);
}

TEST(ReadPolicy, WorkBehindLongWork) {
  const test::TimeLimit limit(60);
  ThreadPool pool(std::make_unique<ReadPolicy>(8, std::make_shared<TuningLog>()));
  EXPECT_EQ(pool.threads(), 0) << "nobody waited for anything";
  constexpr int kPieces = 6;
  std::latch all(kPieces);  // none ends before the others began
  std::latch done(kPieces);
  for (int i = 0; i < kPieces; ++i) {
    pool.submit([&] {
      all.arrive_and_wait();
      done.count_down();
    });
  }
  while (!done.try_wait()) {
    std::this_thread::sleep_for(milliseconds(3));
    pool.look();
  }
  EXPECT_GE(pool.threads(), kPieces);
}

TEST(ReadPolicy, LongWorkThatNeedsCpus) {
  const auto log = std::make_shared<TuningLog>();
  {
    ThreadPool pool(std::make_unique<ReadPolicy>(64, log));
    std::latch done(40);
    for (int i = 0; i < 40; ++i) {
      pool.submit([&] {
        const auto end = std::chrono::steady_clock::now() + milliseconds(50);
        while (std::chrono::steady_clock::now() < end) continue;
        done.count_down();
      });
    }
    while (!done.try_wait()) {
      std::this_thread::sleep_for(milliseconds(3));
      pool.look();
    }
  }
  for (const Decision& decision : log->decisions()) EXPECT_LE(decision.to, 8U) << decision.reason;
}

TEST(ReadPolicy, WorkThatDoesNotReturn) {
  constexpr std::int64_t kHanging = 6;  // more than the few that the pool has anyhow
  std::atomic<int> delivered{0};
  std::atomic<bool> held_up{false};
  const auto work = [&](Element element) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (element[0].item<std::int64_t>() < kHanging && delivered < 100 && !held_up) {
      std::this_thread::sleep_for(milliseconds(1));
      if (std::chrono::steady_clock::now() > end) held_up = true;
    }
    return element;
  };
  Iterator iterator = range(200).map(work, {.blocking = true, .ordered = false}).iterate();
  while (iterator.next().has_value()) ++delivered;
  EXPECT_EQ(delivered, 200);
  EXPECT_FALSE(held_up);
}

TEST(ComputePolicy, IdleThreads) {
  Site site(2);
  site.consumers = 1;
  std::latch done(20);
  for (int i = 0; i < 20; ++i) {
    site.workers->submit([&] {
      std::this_thread::sleep_for(milliseconds(2));
      done.count_down();
    });
  }
  done.wait();
  ASSERT_EQ(site.workers->threads(), 2);
  site.consumers = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (site.workers->threads() == 2 && std::chrono::steady_clock::now() < end) {
    std::latch one(1);
    site.workers->submit([&] { one.count_down(); });
    one.wait();
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_EQ(site.workers->threads(), 1);
  EXPECT_NE(site.log->decisions().back().reason.find("never waited"), std::string::npos);
}

TEST(ComputePolicy, DecisionsOfARun) {
  const auto work = [](Element element) {
    std::this_thread::sleep_for(milliseconds(1));
    return element;
  };
  const Dataset dataset = range(400).shuffle().map(work).batch(10);
  std::vector<std::vector<std::int64_t>> seen;
  for (const int threads : {1, 4}) {
    Iterator iterator = dataset.iterate({.seed = 5, .threads = threads});
    std::vector<std::int64_t>& values = seen.emplace_back();
    for (Next next = iterator.next(); next.has_value(); next = iterator.next()) {
      const Tensor& batch = next.value()["value"];
      for (std::int64_t i = 0; i < 10; ++i) {
        values.push_back(reinterpret_cast<const std::int64_t*>(batch.data())[i]);
      }
    }
    std::set<std::string> knobs;
    for (const Decision& decision : iterator.stats().decisions) knobs.insert(decision.knob);
    EXPECT_EQ(knobs.contains("threads"), threads > 1);
  }
  EXPECT_EQ(seen[0].size(), 400U);
  EXPECT_EQ(seen[0], seen[1]);
}

TEST(Run, CountBelowZero) {
  for (const bool shared : {false, true}) {
    penstock::Run run(compile(range(10), {.threads = 1}), {.threads = 1});
    Activity& activity = run.activity();
    std::size_t count = 1;
    const auto take_off = [&] { shared ? activity.ended() : activity.take_off(count); };
    if (shared) activity.began();
    take_off();
    EXPECT_FALSE(run.state().cancelled());
    take_off();
    EXPECT_EQ(shared ? static_cast<std::size_t>(activity.at_work()) : count, 0U) << "not wrapped";
    EXPECT_TRUE(run.state().cancelled());
    EXPECT_EQ(run.state().why_stopped().code(), ErrorCode::internal);
  }
}

TEST(Activity, TheLastThreadToRest) {
  int resolved = 0;
  Activity activity(
      1, [] { FAIL(); }, [&] { ++resolved; });
  std::atomic<std::uint64_t> events{0};
  std::latch rests(1);
  std::jthread thread([&](const std::stop_token& stop) {
    const AtWork at_work(activity);
    const Resting resting(events, 0);
    rests.count_down();
    while (!stop.stop_requested()) std::this_thread::yield();
  });
  rests.wait();
  {
    const AtWork at_work(activity, AtWork::Consumes());
    const Resting resting(events, 0);
    EXPECT_FALSE(activity.quiet()) << "the consumer does not wait for an element";
  }
  EXPECT_EQ(resolved, 0);
  {
    const Counted waits = activity.consumer_waits();
    const AtWork at_work(activity, AtWork::Consumes());
    const AtWork nested(activity);
    EXPECT_EQ(activity.at_work(), 1);
    activity.began();  // a group
    {
      const Resting resting(events, 0);
      EXPECT_FALSE(activity.quiet());
      EXPECT_EQ(resolved, 0);
      activity.ended();
      EXPECT_EQ(resolved, 1);
    }
    events = 1;  // the other thread was woken, but has no CPU yet
    const Resting resting(events, 1);
    EXPECT_EQ(activity.at_work(), 0);
    EXPECT_FALSE(activity.quiet());
    EXPECT_EQ(resolved, 1);
  }
}

TEST(Activity, AHolderThatReturnsMemory) {
  struct Holder final : BatchHolder {
    bool returns_memory() const noexcept override { return returns; }
    bool returns = true;
  };
  const auto holder = std::make_shared<Holder>();
  int resolved = 0;
  Activity activity(
      1, [] { FAIL(); }, [&] { ++resolved; }, holder);
  const Counted waits = activity.consumer_waits();
  std::atomic<std::uint64_t> events{0};
  const AtWork at_work(activity, AtWork::Consumes());
  { const Resting resting(events, 0); }
  EXPECT_EQ(resolved, 0);
  holder->returns = false;
  { const Resting resting(events, 0); }
  EXPECT_EQ(resolved, 1);
}

}  // namespace
}  // namespace penstock
