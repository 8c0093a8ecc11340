#include "pipeline/engine/make/read_pace.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include <penstock/penstock.h>

namespace penstock {
namespace {

using std::chrono::milliseconds;

/// So many requests of a file that has `depth` under way at once.
ReadsAsked asked(std::size_t requests, std::size_t depth = 1) {
  ReadsAsked all;
  all.add(requests, depth);
  return all;
}

TEST(ReadPace, ReadsInOneGoWhereReadsAreFast) {
  ReadPace pace;
  EXPECT_EQ(pace.parts(32, 4 << 20), 1U);
  pace.learn(32, asked(32), 4 << 20, milliseconds(3));
  EXPECT_EQ(pace.parts(32, 4 << 20), 1U);
  EXPECT_NEAR(pace.latency_ms(), 3.0 / 32, 1e-6);
}

TEST(ReadPace, HasAPartForEachSlowRead) {
  struct Case {
    std::size_t count;
    std::uint64_t reads;
    std::uint64_t bytes;
    std::size_t parts;  // of 64 such elements
  };
  for (const Case& seen : {Case{32, 32, 32 * 110'000, 64}, Case{32, 16, 32 * 110'000, 32},
                           Case{1300, 1, 256 << 10, 1}, Case{2, 2, 400, 64}}) {
    ReadPace pace;
    pace.learn(seen.count, asked(seen.reads), seen.bytes, milliseconds(20) * seen.reads);
    EXPECT_EQ(pace.parts(64, 64 * seen.bytes / seen.count), seen.parts) << seen.count;
  }
}

TEST(ReadPace, DoesNotTakeFewSmallNeighboursForManyReads) {
  ReadPace pace;
  pace.learn(1, asked(1), 200, milliseconds(20));
  EXPECT_EQ(pace.parts(1000, 200'000), 1U);
  EXPECT_EQ(pace.parts(1000, 400'000), 3U);  // as bytes say
  pace.learn(333, asked(1), 133'000, milliseconds(20));
  EXPECT_EQ(pace.parts(1000, 400'000), 4U);
}

TEST(ReadPace, LeavesToAFileWhatItHasUnderWayAtOnce) {
  ReadPace pace;
  pace.learn(1, asked(1, 64), 110'000, milliseconds(20));
  EXPECT_EQ(pace.parts(64, 64 * 110'000), 1U);
  EXPECT_EQ(pace.parts(65, 65 * 110'000), 2U);
  pace.learn(64, asked(64, 64), 64 * 110'000, milliseconds(20));
  EXPECT_EQ(pace.parts(256, 256 * 110'000), 4U);
  EXPECT_EQ(pace.latency_ms(), 20);
}

TEST(ReadPace, NeverHasMorePartsThanElements) {
  ReadPace pace;
  pace.learn(1, asked(5), 1 << 20, milliseconds(100));
  EXPECT_EQ(pace.parts(3, 3 << 20), 3U);
  EXPECT_EQ(pace.parts(1, 1 << 20), 1U);
  pace.learn(0, asked(0), 0, milliseconds(1));
  EXPECT_EQ(pace.parts(1, 0), 1U);
}

/// Notes how many reads were under way at once, each of which takes a while.
class WatchedFiles final : public FileSystem {
 public:
  explicit WatchedFiles(FileSystemPtr inner) : inner_(std::move(inner)) {}
  std::string name() const override { return "watched"; }
  std::shared_ptr<File> open(const std::string& path) override {
    return std::make_shared<Watched>(*this, inner_->open(path));
  }
  FileInfo info(const std::string& path) override { return inner_->info(path); }
  bool is_directory(const std::string& path) override { return inner_->is_directory(path); }
  std::vector<std::string> list(const std::string& folder) override { return inner_->list(folder); }
  std::vector<std::string> glob(const std::string& pattern, bool hidden) override {
    return inner_->glob(pattern, hidden);
  }
  int most() const { return most_; }
  std::atomic<bool> slow{false};

 private:
  class Watched final : public File {
   public:
    Watched(WatchedFiles& files, std::shared_ptr<File> inner)
        : files_(files), inner_(std::move(inner)) {}
    const FileInfo& info() const noexcept override { return inner_->info(); }
    const std::string& path() const noexcept override { return inner_->path(); }
    void read(std::span<ReadRequest> requests) override {
      for (ReadRequest& request : requests) {
        const int now = ++files_.under_way_;
        for (int seen = files_.most_; now > seen && !files_.most_.compare_exchange_weak(seen, now);)
          ;
        if (files_.slow) std::this_thread::sleep_for(milliseconds(5));
        inner_->read({&request, 1});
        --files_.under_way_;
      }
    }

   private:
    WatchedFiles& files_;
    std::shared_ptr<File> inner_;
  };

  const FileSystemPtr inner_;
  std::atomic<int> under_way_{0};
  std::atomic<int> most_{0};
};

/// 600 records of 16 bytes, each with its number.
std::string numbered() {
  std::string bytes;
  for (int i = 0; i < 600; ++i) {
    std::string record(16, '\0');
    record[0] = static_cast<char>(i % 256);
    record[1] = static_cast<char>(i / 256);
    bytes += record;
  }
  return bytes;
}

std::vector<int> numbers_of(const Dataset& dataset) {
  std::vector<int> numbers;
  Iterator iterator = dataset.iterate({.seed = 3, .threads = 1, .slots = 1, .io_threads = 64});
  for (Next next = iterator.next(); next.has_value(); next = iterator.next()) {
    const Element batch = next.value();
    const auto* const rows = batch["record"].data();
    for (std::int64_t i = 0; i < batch.valid_rows; ++i) {
      const auto byte = [&](std::int64_t k) { return static_cast<int>(rows[16 * i + k]); };
      numbers.push_back(byte(0) + 256 * byte(1));
    }
  }
  return numbers;
}

TEST(ReadPace, SlowReadsOfOneGroup) {
  const auto memory = make_memory_file_system({{"records", numbered()}});
  const auto files = std::make_shared<WatchedFiles>(memory);
  FixedRecordOptions options;
  options.files = files;
  const Dataset dataset = fixed_records({"records"}, 16, options).shuffle().repeat(3).batch(50);
  const std::vector<int> fast = numbers_of(dataset);
  files->slow = true;
  EXPECT_EQ(numbers_of(dataset), fast);
  EXPECT_EQ(fast.size(), 1800U);
  EXPECT_GE(files->most(), 16);
}

}  // namespace
}  // namespace penstock
