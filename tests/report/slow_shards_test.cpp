// The shard that is slow to read, as times tell it and as a run finds it.
#include <chrono>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <penstock/penstock.h>

#include "pipeline/core/shard_times.h"
#include "tests/support/time_limit.h"

namespace penstock::slow_shards_test {
namespace {

using std::chrono::milliseconds;

TEST(ShardTimes, NameTheOneThatTakesMuchLonger) {
  ShardTimes times;
  EXPECT_FALSE(times.slowest());
  times.add_slow("a", 10, milliseconds(20));
  times.add_slow("b", 10, milliseconds(100));
  times.add_slow("c", 10, milliseconds(20));
  const std::optional<SlowShard> slow = times.slowest();
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->path, "b");
  EXPECT_DOUBLE_EQ(slow->read_s, 0.01);
  EXPECT_DOUBLE_EQ(slow->others_s, 0.002);
}

TEST(ShardTimes, NameNoneAmongEquals) {
  ShardTimes times;
  for (const char* shard : {"a", "b", "c"}) times.add_slow(shard, 100, milliseconds(1000));
  EXPECT_FALSE(times.slowest());
  times.add_slow("large", 10'000, milliseconds(100'000));
  EXPECT_FALSE(times.slowest()) << "it has more reads, and is no slower";
}

TEST(ShardTimes, NameNoneThatHasFewReadsOrLittleTime) {
  ShardTimes times;
  times.add_slow("a", 7, milliseconds(1000));
  times.add_fast(7, milliseconds(1));
  EXPECT_FALSE(times.slowest());
  times.add_slow("a", 1, milliseconds(1));
  EXPECT_FALSE(times.slowest());
  times.add_fast(1, milliseconds(0));
  EXPECT_EQ(times.slowest()->path, "a");
  times.add_fast(1'000'000, milliseconds(10'000));
  EXPECT_FALSE(times.slowest());
}

TEST(ShardTimes, KnowABoundedNumberOfNames) {
  ShardTimes times;
  for (int i = 0; i < 3000; ++i) times.add_slow(std::to_string(i), 10, milliseconds(1));
  times.add_slow("2999", 10, milliseconds(100'000));
  EXPECT_FALSE(times.slowest());
  times.add_slow("7", 10, milliseconds(900'000));
  EXPECT_EQ(times.slowest()->path, "7");
}

/// Files in memory, of which one takes a while for each read.
class OneSlowFile final : public FileSystem {
 public:
  OneSlowFile(FileSystemPtr inner, std::string slow)
      : inner_(std::move(inner)), slow_(std::move(slow)) {}
  std::string name() const override { return "one slow file"; }
  std::shared_ptr<File> open(const std::string& path) override {
    return std::make_shared<DelayedFile>(inner_->open(path), milliseconds(path == slow_ ? 5 : 0));
  }
  FileInfo info(const std::string& path) override { return inner_->info(path); }
  bool is_directory(const std::string& path) override { return inner_->is_directory(path); }
  std::vector<std::string> list(const std::string& folder) override { return inner_->list(folder); }
  std::vector<std::string> glob(const std::string& pattern, bool hidden) override {
    return inner_->glob(pattern, hidden);
  }

 private:
  class DelayedFile final : public File {
   public:
    DelayedFile(std::shared_ptr<File> inner, milliseconds delay)
        : inner_(std::move(inner)), delay_(delay) {}
    const FileInfo& info() const noexcept override { return inner_->info(); }
    const std::string& path() const noexcept override { return inner_->path(); }
    void read(std::span<ReadRequest> requests) override {
      std::this_thread::sleep_for(delay_ * requests.size());
      inner_->read(requests);
    }

   private:
    const std::shared_ptr<File> inner_;
    const milliseconds delay_;
  };

  const FileSystemPtr inner_;
  const std::string slow_;
};

TEST(SlowShard, IsInTheReportOfARun) {
  const test::TimeLimit limit(60);
  constexpr std::size_t kRecord = 130 << 10;  // two are too many for one read
  const std::string records(20 * kRecord, 'x');
  FixedRecordOptions options;
  options.files = std::make_shared<OneSlowFile>(
      make_memory_file_system({{"data/a", records}, {"data/b", records}, {"data/c", records}}),
      "data/b");
  for (const bool shuffled : {false, true}) {
    Dataset dataset = fixed_records({"data/*"}, kRecord, options);
    if (shuffled) dataset = dataset.shuffle();
    Iterator run = dataset.batch(10).iterate({.seed = 3, .threads = 1});
    while (Next batch = run.next()) static_cast<void>(*batch);
    const Report said = report(run);
    const auto slow = nlohmann::json::parse(said.json)["slow_shard"];
    ASSERT_TRUE(slow.is_object()) << shuffled;
    EXPECT_EQ(slow["path"], "data/b");
    EXPECT_GE(slow["read_ms"], 5);
    EXPECT_LT(slow["others_ms"], slow["read_ms"]);
    EXPECT_THAT(said.text, testing::HasSubstr("\na read of data/b takes "));
  }
}

}  // namespace
}  // namespace penstock::slow_shards_test
