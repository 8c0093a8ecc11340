// A worker's memory stays in its budget, whatever it is asked.
#include <malloc.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/penstock.h>

#include "pipeline/remote/messages.h"
#include "pipeline/remote/session.h"
#include "pipeline/remote/transport.h"
#include "pipeline/stage/fingerprint.h"
#include "tests/support/sanitizer.h"
#include "tests/support/time_limit.h"

namespace penstock::remote {
namespace {

using namespace std::chrono_literals;
using test::kAddressSanitizer;
using test::kThreadSanitizer;
using test::TimeLimit;

constexpr std::uint64_t kBudget = 32 << 20;
/// Beside it: stacks, code that is touched first, what malloc keeps of many small pieces, and the
/// questions, of up to 14 MiB, which are this process's too.
constexpr std::uint64_t kBeside = 36 << 20;
constexpr std::int64_t kRow = 64 << 10;

/// Elements of 64 KiB, in batches and as single values for a filter.
Dataset graph() {
  return range(1 << 20)
      .map(
          [](const Element& e) {
            Element out;
            out.set("bytes", Tensor::allocate(DType::u8, Shape({kRow})));
            std::memset(out["bytes"].mutable_data(),
                        static_cast<int>(e["value"].item<std::int64_t>()), kRow);
            return out;
          },
          {.name = "large", .output = Spec({{"bytes", DType::u8, Shape({kRow})}})})
      .filter([](const Element&) { return true; }, "all")
      .map([](Element e) { return e; }, {.name = "same"})
      .batch(4);
}

std::uint64_t stage_of(const Plan& plan, const std::string& name, int nth = 0) {
  for (std::size_t i = 0; i < plan.stages().size(); ++i)
    if (plan.stages()[i].node->name() == name && nth-- == 0) return i;
  throw std::runtime_error("no stage " + name);
}

/// Bytes of the process: "VmRSS" or "VmHWM".
std::uint64_t bytes_of_process(const std::string& what) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(what + ":")) return std::stoull(line.substr(what.size() + 1)) << 10;
  return 0;
}

/// Lets go of answers, as a network that takes them does.
class Away final : public WorkerLink {
 public:
  void send(WireBytes bytes) override {
    Incoming message(std::move(bytes));
    const std::lock_guard lock(mutex_);
    if (message.kind() == Kind::answer)
      ++answers_[static_cast<std::size_t>(get_answer(message.head()).what)];
    if (message.kind() == Kind::refused) ++refused;
  }
  void close() noexcept override { closed = true; }
  std::uint64_t answers(AnswerHead::What what) {
    const std::lock_guard lock(mutex_);
    return answers_[static_cast<std::size_t>(what)];
  }
  std::atomic<int> refused{0};
  std::atomic<bool> closed{false};

 private:
  std::mutex mutex_;
  std::array<std::uint64_t, 4> answers_{};
};

/// A run that asks for what it likes.
class Rude {
 public:
  explicit Rude(std::uint64_t cache_bytes) {
    served_.dataset = graph();
    served_.options = {.threads = 2, .memory_bytes = kBudget};
    if (cache_bytes > 0) served_.cache = std::make_unique<ElementCache>(cache_bytes);
    session_ = std::make_unique<Session>(served_, link);
    const Plan plan = compile(*served_.dataset, {});
    StateWriter fingerprint;
    Fingerprint(*plan.root()).save(fingerprint);
    say(encode(Hello{.version = version(),
                     .build = build_id(),
                     .graph = {},
                     .fingerprint = fingerprint.take(),
                     .seed = 3}));
    large_ = stage_of(plan, "map");
    same_ = stage_of(plan, "map", 1);
    filter_ = stage_of(plan, "filter");
    batch_ = stage_of(plan, "batch");
    program(stage_of(plan, "range"), true, 0);  // 0: the records
    program(large_, false, 1);                  // 1: large elements
  }
  ~Rude() {
    session_->lost(Status());
    while (!session_->over()) std::this_thread::sleep_for(1ms);
  }

  void program(std::uint64_t stage, bool first, std::uint64_t parent) {
    StateWriter head;
    for (const std::uint64_t number :
         {static_cast<std::uint64_t>(Kind::program), stage, std::uint64_t{first}, parent})
      head.put(number);
    say(message(head.bytes()));
  }
  /// Programs of a thousand steps, one after the other.
  void many_programs(int count) {
    for (int i = 0; i < count; ++i) program(same_, false, static_cast<std::uint64_t>(2 + i % 900));
  }
  /// A question for so many elements.
  WireBytes question(bool rows, std::uint64_t count, std::uint64_t from = 0) {
    StateWriter head;
    head.put(static_cast<std::uint64_t>(Kind::ask));
    head.put(++id_);
    head.put(rows ? batch_ : filter_);
    head.put(rows ? 1 : 0);
    put_fixed(head, 1);
    head.put(0);  // layouts
    head.put(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      head.put(2);  // the program's number, plus one
      head.put(from + i);
      put_fixed(head, from + i);
      head.put(0);  // it holds nothing
    }
    return message(head.bytes());
  }
  void say(WireBytes bytes) { session_->received(std::move(bytes)); }
  void wait() {
    while (!session_->idle()) std::this_thread::sleep_for(1ms);
  }

  Away link;

 private:
  Served served_;
  std::unique_ptr<Session> session_;
  std::uint64_t large_ = 0, same_ = 0, filter_ = 0, batch_ = 0;
  std::uint64_t id_ = 0;
};

class WorkerMemory : public testing::Test {
 protected:
  /// What the process had at most while `act` ran, beyond what it had at first.
  void expect_within(std::uint64_t budget, const char* what, const std::function<void()>& act) {
    ::malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << "5";  // VmHWM begins anew
    act();
    const std::uint64_t most = bytes_of_process("VmHWM");
    const std::uint64_t grew = most > at_first_ ? most - at_first_ : 0;
    std::printf("figure: %s: the worker's process grew by %.1f MiB of %.0f\n", what,
                static_cast<double>(grew) / (1 << 20), static_cast<double>(budget) / (1 << 20));
    if (kAddressSanitizer || kThreadSanitizer) return;  // whose memory is their own
    EXPECT_LE(grew, budget + kBeside) << what;
  }

 private:
  const std::uint64_t at_first_ = bytes_of_process("VmRSS");
  const TimeLimit limit_{100};
};

TEST_F(WorkerMemory, StaysInItsBudgetWhateverItIsAsked) {
  for (const std::uint64_t cache : {std::uint64_t{0}, std::uint64_t{8} << 20}) {
    SCOPED_TRACE(cache > 0 ? "with a cache" : "without a cache");
    Rude run(cache);
    const std::uint64_t budget = kBudget + cache;
    struct Case {
      const char* what;
      bool rows;
      std::uint64_t count;
      int asks;
    };
    for (const Case& one :
         {Case{"rows that fit one by one", true, 40, 200},
          Case{"rows that do not fit", true, 5000, 20},
          Case{"values that fit one by one", false, 40, 200},
          Case{"values that do not fit", false, 5000, 20}, Case{"many values", false, 100'000, 10},
          Case{"a million rows", true, 1 << 20, 3}, Case{"a million values", false, 1 << 20, 3}}) {
      const WireBytes question = run.question(one.rows, one.count);
      expect_within(budget, one.what, [&] {
        for (int i = 0; i < one.asks; ++i) {
          run.say(question);
          if (question.size() > 1 << 20) run.wait();  // several of them would end the link
        }
        run.wait();
      });
    }
    EXPECT_FALSE(run.link.closed);
    EXPECT_GT(run.link.answers(AnswerHead::What::no_memory), 0U);
    // What fits is made all the same.
    const std::uint64_t rows = run.link.answers(AnswerHead::What::rows);
    run.say(run.question(true, 8, 1000));
    run.wait();
    EXPECT_EQ(run.link.answers(AnswerHead::What::rows), rows + 1);
    const std::uint64_t values = run.link.answers(AnswerHead::What::values);
    run.say(run.question(false, 8, 1000));
    run.wait();
    EXPECT_EQ(run.link.answers(AnswerHead::What::values), values + 1);
    expect_within(budget, "programs of a thousand steps", [&] {
      run.many_programs(3000);
      run.wait();
    });
    EXPECT_GT(run.link.refused, 0);
  }
}

}  // namespace
}  // namespace penstock::remote
