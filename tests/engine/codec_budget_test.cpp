// What a codec takes counts: whoever fits beside one batch alone gets room, whoever does not is an
// error that says what it takes, and neither depends on threads.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include <penstock/sources.h>

#include "pipeline/core/codec_budget.h"
#include "pipeline/engine/memory/slots.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace {

constexpr std::int64_t kElements = 240;
constexpr std::int64_t kBatch = 8;
constexpr std::int64_t kRow = 4096;
constexpr std::uint64_t kSlice = 20000;

/// Bytes that ops have taken and not given back.
struct Account {
  std::atomic<std::uint64_t> now{0};
  std::atomic<std::uint64_t> most{0};
};

/// Makes a row of an element's number. Every 37th takes `large` bytes for a while, others little.
class CodecOp final : public WorkOp {
 public:
  CodecOp(std::uint64_t large, std::shared_ptr<Account> account)
      : large_(large), account_(std::move(account)) {}
  std::string name() const override { return "codec"; }
  void describe(Description&) const override {}
  std::size_t preferred_group() const override { return 16; }
  Spec infer(const Spec&) const override { return Spec({{"row", DType::u8, Shape({kRow})}}); }
  void run(std::span<WorkItem> items, WorkContext& context) const override {
    for (WorkItem& item : items) {
      if (!item.status.ok()) continue;
      try {
        make(item, context);
      } catch (...) {
        item.status = status_from_current_exception();
      }
    }
  }

 private:
  struct Taken {
    explicit Taken(Account& all) : account(all) {}
    ~Taken() { account.now -= bytes; }
    Account& account;
    std::uint64_t bytes = 0;
  };
  void make(WorkItem& item, WorkContext& context) const {
    const auto number = static_cast<std::uint64_t>(item.element["value"].item<std::int64_t>());
    auto& budget = dynamic_cast<CodecBudget&>(context);
    const std::uint64_t bytes = number % 37 == 36 ? large_ : number % 5 * kSlice;
    // In two parts, as a decoder's own and what is done with its pixels.
    Taken taken(*account_);
    for (const std::uint64_t part : {bytes - bytes / 3, bytes / 3}) {
      budget.take(part);
      taken.bytes += part;
      const std::uint64_t now = account_->now += part;
      for (std::uint64_t seen = account_->most; now > seen;)
        if (account_->most.compare_exchange_weak(seen, now)) break;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    account_->now -= std::exchange(taken.bytes, 0);
    budget.give(bytes);
    BufferPtr buffer;
    std::byte* memory = item.row ? item.row.data(0) : nullptr;
    if (memory == nullptr) {
      buffer = context.allocate(kRow);
      memory = buffer->data();
    }
    std::memset(memory, static_cast<int>(number % 251), kRow);
    item.element = Element({{"row", Tensor(DType::u8, Shape({kRow}), memory, std::move(buffer))}});
  }

  const std::uint64_t large_;
  const std::shared_ptr<Account> account_;
};

std::uint64_t slot_bytes(std::int64_t spare = 0) {
  return SlotLayout(Spec({{"row", DType::u8, Shape({kRow})}}), kBatch, spare).bytes;
}

struct Read {
  std::vector<int> rows;  // each its byte
  std::vector<std::string> errors;
  Stats stats;
};

Read read_all(const Dataset& dataset, const RunOptions& options, bool holds = false) {
  Read read;
  Iterator iterator = dataset.iterate(options);
  Next held = Next(End{});
  for (;;) {
    Next next = iterator.next();
    if (next.is_end() && !iterator.next_epoch()) break;
    if (next.is_end()) continue;
    if (next.is_error()) {
      read.errors.emplace_back(next.error().what());
      continue;
    }
    const Tensor& rows = next.value()[0];
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(rows.data());
    for (std::int64_t i = 0; i < rows.volume(); i += kRow) {
      EXPECT_EQ(bytes[i], bytes[i + kRow - 1]);
      read.rows.push_back(bytes[i]);
    }
    if (holds) held = std::move(next);
  }
  read.stats = iterator.stats();
  return read;
}

struct Graph {
  const char* name;
  std::function<Dataset(const Dataset&)> behind;
};

std::vector<Graph> shapes() {
  const auto yes = [](const Element&) { return true; };
  return {
      {"batched", [](const Dataset& made) { return made.batch(kBatch); }},
      {"filtered, batched", [yes](const Dataset& made) { return made.filter(yes).batch(kBatch); }},
      {"prefetched", [](const Dataset& made) { return made.batch(kBatch).prefetch(6); }},
      {"taken", [](const Dataset& made) { return made.batch(kBatch).take(22); }},
  };
}

TEST(CodecBudget, ElementBesideOneBatch) {
  const test::TimeLimit limit(110);
  const std::uint64_t large = 1U << 20;
  for (const Graph& shape : shapes()) {
    std::vector<int> expected;
    for (const bool tight : {false, true}) {
      for (const int threads : {1, 2, 8}) {
        SCOPED_TRACE(std::string(shape.name) + (tight ? ", tight, " : ", roomy, ") +
                     std::to_string(threads) + " threads");
        const auto account = std::make_shared<Account>();
        const Dataset dataset = shape.behind(
            range(kElements).shuffle().map_op(std::make_shared<CodecOp>(large, account)));
        RunOptions options;
        options.seed = 3;
        options.threads = threads;
        options.epochs = 2;
        // Values of single elements lie beside the slot.
        options.memory_bytes =
            tight ? slot_bytes() + large + (shape.name[0] == 'f' ? 64 * kRow : 0) : 256U << 20;
        const Read read = read_all(dataset, options);
        EXPECT_EQ(read.errors, std::vector<std::string>());
        if (expected.empty()) expected = read.rows;
        EXPECT_EQ(read.rows, expected);
        EXPECT_LE(read.stats.memory.peak_bytes, options.memory_bytes);
        EXPECT_LE(account->most.load(), options.memory_bytes);
        EXPECT_GE(account->most.load(), large);
        ASSERT_EQ(read.stats.epochs.size(), 2U);
        for (const EpochStats& epoch : read.stats.epochs)
          EXPECT_LE(epoch.repeated, 0);  // -1: not known
      }
    }
    EXPECT_GE(expected.size(), 300U);
  }
}

TEST(CodecBudget, OversizedElement) {
  const test::TimeLimit limit(110);
  const std::uint64_t large = 1U << 20;
  for (const OnError on_error : {OnError::fail, OnError::skip}) {
    Read expected;
    for (const int threads : {1, 2, 8}) {
      SCOPED_TRACE(std::to_string(threads) + " threads");
      const auto account = std::make_shared<Account>();
      const Dataset dataset =
          range(kElements).map_op(std::make_shared<CodecOp>(large, account)).batch(kBatch);
      RunOptions options;
      options.threads = threads;
      options.on_error = on_error;
      // For the first part. Where bad elements are skipped a slot has a spare row.
      options.memory_bytes = slot_bytes(on_error == OnError::skip ? 1 : 0) + large - large / 3;
      const Read read = read_all(dataset, options);
      if (threads == 1) expected = read;
      EXPECT_EQ(read.rows, expected.rows);
      EXPECT_EQ(read.errors, expected.errors);
      // Too little memory is no fault of the element, so it ends a run that skips bad ones.
      EXPECT_EQ(read.stats.errors.count, on_error == OnError::skip ? 1U : 6U);
      EXPECT_EQ(read.errors.size(), read.stats.errors.count);
      EXPECT_LE(account->most.load(), options.memory_bytes);
      for (const Error& error : read.stats.errors.first) {
        EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
        EXPECT_NE(std::string(error.what()).find("raise it to at least --memory 2MiB"),
                  std::string::npos)
            << error.what();
      }
    }
    if (on_error == OnError::skip) {
      EXPECT_LE(expected.rows.size(), 36U);  // those in front of the first
    } else {
      EXPECT_GE(expected.rows.size(), 180U);
    }
  }
}

TEST(CodecBudget, HeldBatch) {
  const test::TimeLimit limit(60);
  const std::uint64_t large = 1U << 20;
  for (const int threads : {1, 8}) {
    const Dataset dataset =
        range(kElements)
            .map_op(std::make_shared<CodecOp>(large, std::make_shared<Account>()))
            .batch(kBatch);
    RunOptions options;
    options.threads = threads;
    options.memory_bytes = 2 * slot_bytes() + large;
    const Read read = read_all(dataset, options, true);
    EXPECT_EQ(read.errors, std::vector<std::string>());
    EXPECT_EQ(read.rows.size(), static_cast<std::size_t>(kElements));
  }
}

}  // namespace
}  // namespace penstock
