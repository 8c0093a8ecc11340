// Processes that share a cache on disk are killed at any point, and blocks are damaged between: no
// reader gets a byte that is not the server's, and the folder never has more than it may.
//
// PENSTOCK_KILLS says how many (50), PENSTOCK_KILLS_SEED makes another series.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

#include <penstock/internal/crc32c.h>

#include "tests/support/cached_blocks.h"
#include "tests/support/files.h"
#include "tests/support/http_server.h"
#include "tests/support/places.h"
#include "tests/support/process.h"

namespace penstock::test {
namespace {

constexpr std::size_t kBlock = 256 << 10;

int setting(const char* name, int usual) {
  const char* const value = std::getenv(name);
  return value != nullptr ? std::atoi(value) : usual;
}

class CacheKills : public testing::Test {
 protected:
  Process victim(std::uint64_t most, int seed, int reads, const std::string& log) const {
    return Process({built("cache_victim"), server_.url() + "/a", folder_ / "cache",
                    std::to_string(most), std::to_string(seed), std::to_string(reads), log});
  }
  /// Reads of a log, all of which must have come as they are on the server.
  int sound_reads(const std::string& log) const {
    std::istringstream lines(read_file(log));
    int reads = 0;
    for (std::string line; std::getline(lines, line);) {
      unsigned long long at = 0;
      std::size_t size = 0;
      unsigned crc = 0;
      char end = 0;
      if (std::sscanf(line.c_str(), "%llu %zu %u %c", &at, &size, &crc, &end) != 4) continue;
      EXPECT_EQ(crc, crc32c(as_bytes(text_).subspan(at, size))) << log << ": " << line;
      ++reads;
    }
    return reads;
  }
  void damage_one(std::mt19937& random) const {
    const auto blocks = cached_blocks(folder_ / "cache");
    if (blocks.empty()) return;
    const auto& block = blocks[random() % blocks.size()];
    std::string bytes = read_file(block.string());
    if (bytes.empty()) return;
    if (random() % 2 == 0) {
      bytes[random() % bytes.size()] ^= static_cast<char>(1 + random() % 255);
    } else {
      bytes.resize(random() % bytes.size());
    }
    std::ofstream(block, std::ios::binary | std::ios::trunc) << bytes;
  }

  const std::string text_ = noise(24 * kBlock);
  const HttpServer server_{{{"/a", text_}}};
  TempFolder folder_;
};

TEST_F(CacheKills, DamageNothing) {
  const int kills = setting("PENSTOCK_KILLS", 50);
  std::mt19937 random(static_cast<unsigned>(setting("PENSTOCK_KILLS_SEED", 1)));
  constexpr std::uint64_t kMost = 16 * kBlock;
  int reads = 0;
  for (int killed = 0; killed < kills; killed += 2) {
    const std::string logs[] = {folder_ / "log0", folder_ / "log1"};
    {
      // Each is killed at a time of its own while the other one continues.
      const Process first = victim(kMost, killed, 100'000, logs[0]);
      const Process second = victim(kMost, killed + 1, 100'000, logs[1]);
      std::this_thread::sleep_for(std::chrono::microseconds(20'000 + random() % 60'000));
      first.signal(SIGKILL);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    }
    ASSERT_LE(bytes_of_blocks(folder_ / "cache"), kMost);
    for (const std::string& log : logs) {
      reads += sound_reads(log);
      std::filesystem::remove(log);
    }
    ASSERT_FALSE(HasFailure());
    damage_one(random);
  }
  // Whoever comes then reads all that there is.
  const std::string log = folder_ / "last";
  EXPECT_EQ(victim(kMost, 1000, 100, log).wait(), 0);
  EXPECT_EQ(sound_reads(log), 100);
  EXPECT_GT(reads, kills);
  RecordProperty("reads", reads);
}

TEST_F(CacheKills, TwoRunsInOneFolder) {
  constexpr std::uint64_t kMost = 64 * kBlock;
  const std::string logs[] = {folder_ / "log0", folder_ / "log1"};
  Process first = victim(kMost, 1, 150, logs[0]);
  Process second = victim(kMost, 2, 150, logs[1]);
  EXPECT_EQ(first.wait(), 0);
  EXPECT_EQ(second.wait(), 0);
  EXPECT_EQ(sound_reads(logs[0]) + sound_reads(logs[1]), 300);
  EXPECT_LE(bytes_of_blocks(folder_ / "cache"), kMost);
  // One whose turn to write did not come in time may be missing.
  EXPECT_GE(cached_blocks(folder_ / "cache").size(), 22);
  const std::uint64_t before = server_.requests();
  EXPECT_EQ(victim(kMost, 3, 50, folder_ / "log2").wait(), 0);
  EXPECT_LE(server_.requests() - before, 3);  // to find it, and what is missing
  EXPECT_EQ(sound_reads(folder_ / "log2"), 50);
}

}  // namespace
}  // namespace penstock::test
