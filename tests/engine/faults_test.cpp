// Faults below a whole run: what does not show, what is named, and what ends.
#include <gmock/gmock.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <penstock/sources.h>
#include <penstock/state_file.h>

#include "pipeline/io/fault.h"
#include "tests/support/figure.h"
#include "tests/support/files.h"
#include "tests/support/numbers.h"
#include "tests/support/records.h"

namespace penstock {
namespace {

using test::figure;
using test::numbers;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// `shards` shards of `each` records in memory.
FileSystemPtr shards_of(int shards, int each) {
  std::vector<std::pair<std::string, std::string>> files;
  for (int shard = 0; shard < shards; ++shard) {
    std::vector<std::string> records;
    for (int i = 0; i < each; ++i) {
      records.push_back(std::to_string(each * shard + i) + " " +
                        test::noise(20 + 7 * static_cast<std::size_t>(i % 9)));
    }
    files.emplace_back("part-" + std::to_string(shard), test::tfrecords_of(records));
  }
  return make_memory_file_system(files);
}

Dataset records_of(const FileSystemPtr& files) {
  TFRecordOptions options{};
  options.index_folder = "-";
  options.files = files;
  return tfrecord({"part-*"}, options);
}

/// Everything that comes out, and the errors' addresses.
std::string all_of(const Dataset& dataset, const RunOptions& options = {}) {
  std::string text;
  Iterator iterator = dataset.iterate(options);
  for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
    if (next.is_error()) {
      text += "E " + next.error().where().to_string() + "\n";
      continue;
    }
    for (std::int64_t i = 0; i < next->valid_rows; ++i) text += (*next)["record"].bytes_at(i);
    text += "\n";
  }
  return text;
}

// F2. PENSTOCK_SPLITS sets how many.
TEST(Faults, ShortReads) {
  const char* asked = std::getenv("PENSTOCK_SPLITS");
  const std::uint64_t seeds = asked != nullptr ? std::stoull(asked) : 150;
  const FileSystemPtr files = shards_of(3, 12);
  const std::string whole = all_of(records_of(files).shuffle().batch(4));
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const auto split =
        std::make_shared<FaultFileSystem>(files, FaultOptions{.seed = seed, .split = true});
    ASSERT_EQ(all_of(records_of(split).shuffle().batch(4), {.threads = 2}), whole) << seed;
  }
  figure("F2", "%llu runs with every read in random parts: all digests equal",
         static_cast<unsigned long long>(seeds));
}

/// Records in a random order, `rows` to a batch, each of which takes a moment, so that a group is a
/// few of them.
Dataset slow_batches(const FileSystemPtr& files, int rows, std::atomic<int>& mapped) {
  return records_of(files)
      .shuffle()
      .map(
          [&mapped](Element element) {
            std::this_thread::sleep_for(std::chrono::microseconds(300));
            ++mapped;
            return element;
          },
          {.blocking = true})
      .batch(rows);
}

// F6. Late reads: the order stays, and what the slots have room for continues meanwhile.
TEST(Faults, OrderOfStragglers) {
  const FileSystemPtr files = shards_of(4, 500);
  constexpr int kRows = 10;
  constexpr int kSlots = 32;
  const RunOptions options{.threads = 2, .slots = kSlots};
  std::atomic<int> mapped{0};
  const std::string whole = all_of(slow_batches(files, kRows, mapped), options);
  const auto counted = std::make_shared<FaultFileSystem>(files, FaultOptions{});
  static_cast<void>(records_of(counted));
  std::vector<std::shared_ptr<FaultFileSystem>> late;
  for (const std::uint64_t nth : {20, 25, 30}) {  // three of the first reads hang
    const FileSystemPtr inner = late.empty() ? files : FileSystemPtr(late.back());
    late.push_back(std::make_shared<FaultFileSystem>(
        inner, FaultOptions{.hang_nth = counted->operations() + nth}));
  }
  const Dataset dataset = slow_batches(late.back(), kRows, mapped);
  mapped = 0;
  std::string text;
  std::jthread consumer([&] { text = all_of(dataset, options); });
  constexpr int kMeanwhile = kSlots * kRows * 2 / 3;
  const auto patience = Clock::now() + std::chrono::seconds(60);
  while (mapped < kMeanwhile && Clock::now() < patience)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_GE(mapped, kMeanwhile);
  for (const auto& each : late) {
    EXPECT_EQ(each->hanging(), 1);
    each->release();
  }
  consumer.join();
  EXPECT_EQ(text, whole);
}

// F6, for a machine with nothing else to do: the time lost is at most one delay for each time the
// slots are filled anew.
TEST(QuietMachine, TimeOfStragglers) {
  const FileSystemPtr files = shards_of(4, 500);
  constexpr auto kDelay = std::chrono::milliseconds(30);
  constexpr double kRecords = 2000;
  constexpr double kShare = 0.02;
  constexpr int kRows = 10;
  constexpr int kSlots = 32;
  const auto run = [&](double share, std::string& text) {
    const auto late = std::make_shared<FaultFileSystem>(
        files, FaultOptions{.seed = 1, .delay_share = share, .delay = kDelay});
    std::atomic<int> mapped{0};
    const Dataset dataset = slow_batches(late, kRows, mapped);
    const auto start = Clock::now();
    text = all_of(dataset, {.threads = 2, .slots = kSlots});
    return ms_since(start);
  };
  std::string whole;
  std::string text;
  const double clean = run(0, whole);
  const double took = run(kShare, text);
  EXPECT_EQ(text, whole);
  const double most =
      clean + (kRecords / (kSlots * kRows) + 1) * static_cast<double>(kDelay.count());
  const double one_by_one = kRecords * kShare * static_cast<double>(kDelay.count());
  EXPECT_LT(took, most + one_by_one / 4) << "a quarter for a busy machine";
  figure(
      "F6",
      "%.0f records, 2 %% late by 30 ms, %d slots of %d: order kept; %.0f ms (%.0f without, by the "
      "model at most %.0f), where waiting for one after the other costs %.0f",
      kRecords, kSlots, kRows, took, clean, most, one_by_one);
}

class CrashDeathTest : public testing::Test {
 protected:
  // Runs the child in a process of its own rather than a fork: it needs the threads.
  void SetUp() override { testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
};

// F15, without an isolated decoder: the process dies of it at once, and loses nothing that was
// saved.
TEST_F(CrashDeathTest, CrashingCallable) {
  for (const int signal : {SIGSEGV, SIGABRT}) {
    EXPECT_EXIT(
        {
          const Dataset dataset = numbers(1000).map([signal](Element element) {
            if (element["x"].item<std::int64_t>() == 500) {
              std::signal(signal, SIG_DFL);  // sanitizers have handlers of their own
              std::raise(signal);
            }
            return element;
          });
          (void)test::values(dataset.batch(8), {.threads = 2});
        },
        testing::KilledBySignal(signal), "");
  }
  // One bad element, in a process that saves behind each batch; the next skips it by name.
  const test::TempFolder folder;
  const std::string path = folder / "state";
  const auto graph = [](bool crash) {
    return numbers(100)
        .shuffle({.seed = 3})
        .map(
            [crash](Element element) {
              if (element["x"].item<std::int64_t>() != 42) return element;
              if (crash) std::raise(SIGKILL);
              throw std::runtime_error("bad");
            },
            {.name = "decode"})
        .batch(1);
  };
  std::set<std::int64_t> seen;
  int saved = 0;
  {
    int log[2];
    ASSERT_EQ(::pipe(log), 0);
    // Forked before this test runs a dataset: the tests of this program have a process each.
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Iterator iterator = graph(true).iterate({.threads = 2});
      for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
        const auto x = next.value()["x"].to_vector<std::int64_t>()[0];
        if (::write(log[1], &x, sizeof(x)) != sizeof(x)) break;
        save_state(path, iterator.save());
      }
      ::_exit(0);
    }
    ::close(log[1]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    std::int64_t x = 0;
    while (::read(log[0], &x, sizeof(x)) == sizeof(x)) {
      EXPECT_TRUE(seen.insert(x).second);
      ++saved;
    }
    ::close(log[0]);
  }
  const auto state = load_state(path);
  Iterator iterator = state ? graph(false).restore(*state, {.on_error = OnError::skip})
                            : graph(false).iterate({.on_error = OnError::skip});
  for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
    seen.insert(next.value()["x"].to_vector<std::int64_t>()[0]);
  }
  EXPECT_EQ(seen.size(), 99U);
  EXPECT_FALSE(seen.contains(42));
  figure("F15", "the process dies of SIGSEGV and SIGABRT; resumed behind %d batches, 1 of 100 lost",
         saved);
}

using ExitDeathTest = CrashDeathTest;

Dataset endless() {
  return numbers(1000)
      .repeat()
      .shuffle({.buffer = 50})
      .map([](Element element) { return element; })
      .batch(8)
      .prefetch();
}

/// Destroyed after main, and before or after the library's own statics.
std::optional<Iterator>& of_the_process() {
  static std::optional<Iterator> iterator;
  return iterator;
}

// F44.
TEST_F(ExitDeathTest, ExitInMidstream) {
  const auto start = Clock::now();
  EXPECT_EXIT(
      {
        Iterator iterator = endless().iterate({.threads = 3});
        (void)iterator.next();
        std::exit(0);  // nobody destroys the iterator
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        of_the_process().emplace(endless().iterate({.threads = 3}));
        (void)of_the_process()->next();
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        auto* forgotten = new Iterator(endless().iterate({.threads = 3}));
        std::thread([forgotten] {
          while (forgotten->next().has_value()) continue;
        }).detach();
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        std::exit(0);  // while a thread is in `next`
      },
      testing::ExitedWithCode(0), "");
  figure("F44", "3 processes left in midstream: all clean, %.0f ms each with their start",
         ms_since(start) / 3);
}

TEST_F(ExitDeathTest, ForkedChild) {
  EXPECT_EXIT(
      {
        Iterator iterator = endless().iterate({.threads = 2});
        (void)iterator.next();
        const pid_t child = ::fork();
        if (child == 0) {
          int wrong = 0;
          const Next next = iterator.next();
          wrong += !next.is_error() || next.error().code() != ErrorCode::invalid_argument;
          wrong += iterator.next_epoch();
          iterator.cancel();
          try {
            (void)iterator.save();
            ++wrong;
          } catch (const Error& error) {
            wrong += std::string(error.what()).find("forked") == std::string::npos;
          }
          try {
            (void)numbers(3).iterate();
            ++wrong;
          } catch (const Error&) {
          }
          { const Iterator destroyed = std::move(iterator); }
          ::_exit(wrong);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        const bool may_continue = iterator.next().has_value();
        std::exit(WIFEXITED(status) && may_continue ? WEXITSTATUS(status) : 99);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace penstock
