// Saving while other threads are in `next` or `next_epoch`, and from a callable.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include <penstock/dataset.h>

#include "tests/support/numbers.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace save_anywhere_test {

using test::numbers;
using test::stream;

/// A callable that stops at one element, and what it does there. Restored runs pass through.
class Stop {
 public:
  /// Calls `reached` on the calling thread, and then waits for `open`.
  void pass(std::int64_t x) {
    if (x != at_ || !armed_.exchange(false)) return;
    if (reached) reached();
    std::unique_lock lock(mutex_);
    here_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void wait_until_here() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return here_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  std::function<void()> reached{};

 private:
  const std::int64_t at_ = 6;
  std::atomic<bool> armed_{true};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool here_ = false;
  bool open_ = false;
};

std::int64_t x_of(const Element& element) {
  return element["x"].to_vector<std::int64_t>().front();
}

/// Graphs of 12 elements that stop at element 6.
struct Case {
  const char* name;
  std::function<Dataset(Stop&)> dataset;
};

Dataset stopping(const Dataset& input, Stop& stop) {
  return test::map_one_by_one(input, [&stop](Element element) {
    stop.pass(x_of(element));
    return element;
  });
}

std::vector<Case> cases() {
  return {
      {"map", [](Stop& stop) { return stopping(numbers(12), stop); }},
      {"map of a stream",
       [](Stop& stop) {
         return stopping(stream({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}), stop);
       }},
      {"map, batch", [](Stop& stop) { return stopping(numbers(12), stop).batch(2); }},
      {"batch, map", [](Stop& stop) { return stopping(numbers(12).batch(2), stop); }},
      {"map, filter",
       [](Stop& stop) {
         return stopping(numbers(12), stop).filter([](const Element&) { return true; });
       }},
      {"filter",
       [](Stop& stop) {
         return numbers(12).filter([&stop](const Element& element) {
           stop.pass(x_of(element));
           return true;
         });
       }},
      {"interleave's function",
       [](Stop& stop) {
         return numbers(12).interleave(
             [&stop](const Element& element) {
               stop.pass(x_of(element));
               return numbers({x_of(element)});
             },
             numbers(1).spec(), {.cycle = 1, .block = 1});
       }},
      {"take behind work", [](Stop& stop) { return stopping(numbers(20), stop).take(12); }},
      {"repeat", [](Stop& stop) { return stopping(numbers(7).repeat(2).take(12), stop); }},
  };
}

std::vector<std::string> rest_of(Iterator& run) {
  std::vector<std::string> rest;
  for (const Element& element : run) rest.push_back(test::text_of(element));
  return rest;
}

/// A state that was saved at element 6, after `least` batches or elements were delivered, leaves
/// the last ones of `all`.
void expect_saved_there(std::size_t least, const std::string& state, const Dataset& dataset,
                        const std::vector<std::string>& all) {
  Iterator resumed = dataset.restore(state);
  const std::vector<std::string> rest = rest_of(resumed);
  ASSERT_LE(rest.size(), all.size() - least);
  ASSERT_GE(rest.size(), all.size() / 2);
  const auto first = all.end() - static_cast<std::ptrdiff_t>(rest.size());
  EXPECT_EQ(rest, std::vector<std::string>(first, all.end()));
}

TEST(SaveAnywhere, DoesNotWaitForNext) {
  for (const Case& test : cases()) {
    SCOPED_TRACE(test.name);
    const test::TimeLimit limit(60);
    Stop stop;
    const Dataset dataset = test.dataset(stop);
    Iterator run = dataset.iterate({.threads = 2});
    std::atomic<std::size_t> delivered{0};
    std::vector<std::string> all;
    std::thread consumer([&] {
      for (const Element& element : run) {
        all.push_back(test::text_of(element));
        ++delivered;
      }
    });
    stop.wait_until_here();
    const std::size_t least = delivered;
    const std::string state = run.save();
    stop.open();
    consumer.join();
    expect_saved_there(least, state, dataset, all);
  }
}

TEST(SaveAnywhere, WorksInACallable) {
  for (const Case& test : cases()) {
    SCOPED_TRACE(test.name);
    const test::TimeLimit limit(60);
    Stop stop;
    const Dataset dataset = test.dataset(stop);
    Iterator run = dataset.iterate({.threads = 2});
    std::atomic<std::size_t> delivered{0};
    std::size_t least = 0;
    std::string state;
    stop.reached = [&] {
      least = delivered;
      state = run.save();
      stop.open();
    };
    std::vector<std::string> all;
    for (const Element& element : run) {
      all.push_back(test::text_of(element));
      ++delivered;
    }
    expect_saved_there(least, state, dataset, all);
  }
}

/// Calls `opened` whenever its stream of 0, 1, 2, 3 is opened.
class SlowToOpen final : public Source {
 public:
  explicit SlowToOpen(std::function<void()> opened) : opened_(std::move(opened)) {}
  std::string name() const override { return "slow to open"; }
  void describe(Description&) const override {}
  Spec spec() const override { return test::x_spec(); }
  std::unique_ptr<RecordStream> stream() const override {
    opened_();
    return std::make_unique<Numbers>();
  }

 private:
  class Numbers final : public RecordStream {
    bool next(ReadItem& item, ReadContext&) override {
      if (at_ == 4) return false;
      item.element = test::x_element(at_++);
      return true;
    }
    std::int64_t at_ = 0;
  };
  const std::function<void()> opened_;
};

TEST(SaveAnywhere, StateWithinASourcesOpening) {
  const test::TimeLimit limit(60);
  for (const bool by_another : {false, true}) {
    Iterator* run = nullptr;
    std::vector<std::string> states;
    const Dataset dataset(std::make_shared<SlowToOpen>([&] {
      if (run == nullptr) return;
      const auto save = [&] { states.push_back(run->save()); };
      if (by_another) {
        std::thread(save).join();
      } else {
        save();
      }
    }));
    Iterator iterator = dataset.iterate({.threads = 1});
    run = &iterator;
    ASSERT_TRUE(iterator.next().has_value());
    run = nullptr;
    ASSERT_EQ(states.size(), 1U);
    Iterator resumed = dataset.restore(states.front());
    EXPECT_EQ(rest_of(resumed), (std::vector<std::string>{"0", "1", "2", "3"}));
  }
}

TEST(SaveAnywhere, IsBehindTheOldEpochUntilTheNextHasBegun) {
  const test::TimeLimit limit(60);
  Stop stop;
  const Dataset dataset = stopping(numbers(12), stop);
  Iterator run = dataset.iterate({.epochs = 2, .threads = 2});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(run.next().has_value());
  stop.wait_until_here();
  std::thread consumer([&run] { EXPECT_TRUE(run.next_epoch()); });
  // The other thread waits for the callable, now or soon.
  for (int i = 0; i < 1000; ++i) {
    const std::string state = run.save();
    if (i % 200 > 0) continue;
    Iterator resumed = dataset.restore(state, {.epochs = 2});
    EXPECT_EQ(resumed.epoch(), 0U);
    EXPECT_EQ(rest_of(resumed),
              (std::vector<std::string>{"3", "4", "5", "6", "7", "8", "9", "10", "11"}));
  }
  stop.open();
  consumer.join();
  EXPECT_EQ(run.epoch(), 1U);
  Iterator resumed = dataset.restore(run.save(), {.epochs = 2});
  EXPECT_EQ(resumed.epoch(), 1U);
  EXPECT_EQ(rest_of(resumed).size(), 12U);
}

// Two threads share a run of three epochs while a third saves. What a state holds was delivered, or
// was about to be.
TEST(SaveAnywhere, HoldsWhatWasDelivered) {
  constexpr std::int64_t kElements = 400;
  constexpr std::uint64_t kEpochs = 3;
  for (const bool batches : {false, true}) {
    const Dataset values = numbers(kElements).map([](Element element) { return element; });
    const Dataset dataset =
        batches ? values.batch(4) : values.filter([](const Element&) { return true; });
    const std::uint64_t in_epoch = static_cast<std::uint64_t>(kElements) / (batches ? 4 : 1);
    Iterator run = dataset.iterate({.epochs = kEpochs, .threads = 2});
    std::atomic<std::uint64_t> begun{0};
    std::atomic<std::uint64_t> ended{0};
    std::atomic<bool> over{false};
    const auto consume = [&] {
      for (;;) {
        ++begun;
        const Next next = run.next();
        if (!next.has_value()) {
          --begun;
          return;
        }
        ++ended;
      }
    };
    std::vector<std::tuple<std::uint64_t, std::string, std::uint64_t>> states;
    std::thread saver([&] {
      while (!over && states.size() < 2000) {
        const std::uint64_t least = ended;
        std::string state = run.save();
        states.emplace_back(least, std::move(state), begun);
      }
    });
    do {
      std::thread other(consume);
      consume();
      other.join();
    } while (run.next_epoch());
    over = true;
    saver.join();
    ASSERT_FALSE(states.empty());
    for (std::size_t i = 0; i < states.size(); i += 1 + states.size() / 100) {
      const auto& [least, state, most] = states[i];
      Iterator resumed = dataset.restore(state, {.epochs = kEpochs});
      std::uint64_t left = rest_of(resumed).size();
      while (resumed.next_epoch()) left += rest_of(resumed).size();
      const std::uint64_t held = kEpochs * in_epoch - left;
      EXPECT_LE(least, held);
      EXPECT_LE(held, most);
    }
  }
}

}  // namespace save_anywhere_test
}  // namespace penstock
