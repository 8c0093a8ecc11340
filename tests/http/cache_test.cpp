// The cache on disk: what is read again without a server, and what becomes of damage and of want of
// room.
#include <csignal>
#include <numeric>
#include <random>

#include <gmock/gmock.h>

#include <sys/resource.h>

#include <penstock/file_system.h>
#include <penstock/remote_files.h>

#include "tests/support/cached_blocks.h"
#include "tests/support/files.h"
#include "tests/support/http_server.h"
#include "tests/support/log_capture.h"

namespace penstock::test {
namespace {

constexpr std::size_t kBlock = 256 << 10;

class HttpCache : public testing::Test {
 protected:
  HttpCache() { use(); }
  ~HttpCache() override { choose_remote({}); }

  /// As a new process would.
  void use(std::uint64_t most_bytes = 1 << 30, std::string folder = {}) const {
    choose_remote({});
    RemoteOptions options;
    options.retry_wait = std::chrono::milliseconds(1);
    options.cache_dir = folder.empty() ? folder_ / "cache" : folder;
    options.cache_bytes = most_bytes;
    choose_remote(options);
  }
  std::string cache() const { return folder_ / "cache"; }
  static std::shared_ptr<File> open(const HttpServer& server, const std::string& name = "/a") {
    return default_file_system()->open(server.url() + name);
  }
  static std::string read(File& file, std::uint64_t offset, std::size_t size) {
    std::string out(size, '\0');
    file.read_exactly(offset, std::as_writable_bytes(std::span(out)));
    return out;
  }
  /// Bytes that were asked for since the last call, but for those that find an object.
  std::uint64_t fetched() {
    const std::uint64_t now = remote_stats().bytes;
    return now - std::exchange(seen_, now);
  }

  const std::string text_ = noise(3 * kBlock + 1000);
  TempFolder folder_;
  std::uint64_t seen_ = 0;
};

TEST_F(HttpCache, SecondRead) {
  const HttpServer server({{"/a", text_}, {"/b", text_.substr(1)}, {"/small", "few"}});
  ASSERT_EQ(read(*open(server), 0, text_.size()), text_);
  ASSERT_EQ(read(*open(server, "/small"), 1, 2), "ew");
  const std::uint64_t before = server.requests();
  use();
  const auto file = open(server);
  EXPECT_EQ(read(*file, 0, text_.size()), text_);
  EXPECT_EQ(read(*file, kBlock - 3, kBlock + 6), text_.substr(kBlock - 3, kBlock + 6));
  EXPECT_EQ(read(*file, text_.size() - 1, 1), text_.substr(text_.size() - 1));
  EXPECT_EQ(read(*open(server, "/small"), 0, 3), "few");
  EXPECT_EQ(server.requests() - before, 2);  // one each to find them
  EXPECT_EQ(remote_stats().bytes_needed, 0);
  EXPECT_EQ(remote_stats().bytes_cached, text_.size() + kBlock + 6 + 1 + 3);
  // Another object's are others.
  EXPECT_EQ(read(*open(server, "/b"), 0, 10), text_.substr(1, 10));
}

TEST_F(HttpCache, BlocksOfParts) {
  const HttpServer server({{"/a", text_}});
  const auto file = open(server);
  std::string out(3000, '\0');
  auto* const to = reinterpret_cast<std::byte*>(out.data());
  // Two in one block, one over an edge, the same twice.
  std::vector<ReadRequest> requests{{500'000, 1000, to, {}},
                                    {2 * kBlock - 500, 1000, to + 1000, {}},
                                    {500'000, 1000, to + 2000, {}}};
  file->read(requests);
  const std::string expected = text_.substr(500'000, 1000) + text_.substr(2 * kBlock - 500, 1000) +
                               text_.substr(500'000, 1000);
  EXPECT_EQ(out, expected);
  EXPECT_EQ(cached_blocks(cache()).size(), 2);
  const std::uint64_t before = server.requests();
  EXPECT_EQ(read(*file, kBlock, 2 * kBlock), text_.substr(kBlock, 2 * kBlock));
  EXPECT_EQ(server.requests(), before);
}

TEST_F(HttpCache, WholeFiles) {
  const HttpServer server({{"/a", text_}});
  const std::string path = server.url() + "/a";
  for (int round = 0; round < 2; ++round) {
    const FileInfo info = default_file_system()->info(path);
    const std::uint64_t before = server.requests();
    std::string out(text_.size(), '\0');
    ASSERT_TRUE(
        default_file_system()->read_whole(path, info, reinterpret_cast<std::byte*>(out.data())));
    EXPECT_EQ(out, text_);
    EXPECT_EQ(server.requests() == before, round == 1);
    use();
  }
}

TEST_F(HttpCache, NewVersion) {
  HttpServer server({{"/a", text_}});
  read(*open(server), 0, text_.size());
  const std::string other = noise(text_.size(), 2);
  server.replace("/a", other);
  use();
  EXPECT_EQ(read(*open(server), 0, text_.size()), other);
}

TEST_F(HttpCache, ResignedUrls) {
  const HttpServer server({{"/a", text_}});
  const auto get = [&](const std::string& query) {
    use();
    fetched();
    const std::string path = hide_secrets(server.url() + "/a?" + query);
    EXPECT_EQ(read(*default_file_system()->open(path), 0, text_.size()), text_);
    return fetched();
  };
  EXPECT_GT(get("v=1&X-Amz-Signature=one"), text_.size());
  EXPECT_LE(get("v=1&X-Amz-Signature=two"), 1);
  EXPECT_GT(get("v=2&X-Amz-Signature=two"), text_.size());
  for (const auto& block : cached_blocks(cache()))
    EXPECT_EQ(read_file(block.string()).find("Signature"), std::string::npos);
}

TEST_F(HttpCache, DamagedBlocks) {
  const HttpServer server({{"/a", text_}});
  read(*open(server), 0, text_.size());
  const auto damage = [&](int how, const std::filesystem::path& block) {
    std::string bytes = read_file(block.string());
    if (how == 0) bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
    if (how == 1) bytes.resize(bytes.size() - 1);
    if (how == 2) bytes.clear();
    if (how == 3) bytes += "x";
    if (how == 4) bytes[9] = static_cast<char>(bytes[9] ^ 1);  // its name
    if (how == 5) std::fill(bytes.begin(), bytes.end(), '\0');
    std::ofstream(block, std::ios::binary | std::ios::trunc) << bytes;
  };
  for (int how = 0; how < 6; ++how) {
    const auto blocks = cached_blocks(cache());
    ASSERT_EQ(blocks.size(), 4);
    for (const auto& block : blocks) damage(how, block);
    use();
    fetched();
    EXPECT_EQ(read(*open(server), 0, text_.size()), text_) << how;
    EXPECT_GE(fetched(), text_.size()) << how;
    use();
    fetched();
    EXPECT_EQ(read(*open(server), 0, text_.size()), text_) << how;
    EXPECT_LE(fetched(), 1) << how;
  }
  // One in another's place.
  const auto blocks = cached_blocks(cache());
  std::filesystem::copy_file(blocks[0], blocks[1],
                             std::filesystem::copy_options::overwrite_existing);
  use();
  EXPECT_EQ(read(*open(server), 0, text_.size()), text_);
}

TEST_F(HttpCache, UncachedRead) {
  const HttpServer server({{"/a", text_}});
  const auto file = open(server);
  read(*file, 0, 100);
  fetched();
  std::string out(100, '\0');
  ReadRequest request{0, 100, reinterpret_cast<std::byte*>(out.data()), {}};
  file->read_uncached({&request, 1});
  EXPECT_EQ(out, text_.substr(0, 100));
  EXPECT_EQ(fetched(), 100);
  EXPECT_TRUE(cached_blocks(cache()).empty());
}

TEST_F(HttpCache, EvictionOrder) {
  const std::string text = noise(16 * kBlock);
  const HttpServer server({{"/a", text}});
  constexpr std::uint64_t kRoom = 8 * (kBlock + 100);
  use(kRoom);
  const auto file = open(server);
  for (std::size_t i = 0; i < 8; ++i) {
    read(*file, i * kBlock, kBlock);
    // Long ago, the first ones longest.
    for (const auto& block : cached_blocks(cache())) {
      const auto now = std::filesystem::last_write_time(block);
      std::filesystem::last_write_time(block, now - std::chrono::hours(1));
    }
  }
  EXPECT_EQ(cached_blocks(cache()).size(), 8);
  read(*file, 0, kBlock);  // used now
  read(*file, 8 * kBlock, kBlock);
  EXPECT_LE(bytes_of_blocks(cache()), kRoom);
  use(kRoom);
  const auto again = open(server);
  fetched();
  for (const std::size_t kept : {0, 8, 7, 6, 5})
    EXPECT_EQ(read(*again, kept * kBlock, kBlock), text.substr(kept * kBlock, kBlock));
  EXPECT_EQ(fetched(), 0);
  read(*again, 1 * kBlock, kBlock);
  EXPECT_EQ(fetched(), kBlock);
}

TEST_F(HttpCache, SizeLimit) {
  const std::string text = noise(40 * kBlock);
  const HttpServer server({{"/a", text}});
  for (const std::uint64_t most :
       {std::uint64_t{10} * kBlock, std::uint64_t{kBlock}, std::uint64_t{1}}) {
    use(most);
    const auto file = open(server);
    std::mt19937 random(1);
    for (int i = 0; i < 60; ++i) {
      const std::size_t at = random() % (text.size() - 100'000);
      ASSERT_EQ(read(*file, at, 100'000), text.substr(at, 100'000));
      ASSERT_LE(bytes_of_blocks(cache()), most);
    }
  }
  // What others put there, or took away, is found when there is no room.
  use(10 * kBlock);
  for (const auto& block : cached_blocks(cache())) std::filesystem::remove(block);
  std::filesystem::remove(cache() + "/lock");
  folder_.write("cache/00/mine", "not a block");
  const auto file = open(server);
  read(*file, 0, 20 * kBlock);
  EXPECT_LE(bytes_of_blocks(cache()), 10 * kBlock);
  EXPECT_GE(cached_blocks(cache()).size(), 8);
  EXPECT_EQ(read_file(cache() + "/00/mine"), "not a block");
}

TEST_F(HttpCache, DataBeyondItsSize) {
  const std::string text = noise(40 * kBlock);
  const HttpServer server({{"/a", text}});
  use(8 * kBlock);
  const auto file = open(server);
  std::mt19937 random(1);
  std::uint64_t wanted = 0;
  fetched();
  for (int i = 0; i < 300; ++i) {
    const std::size_t at = random() % (text.size() - 70'000);
    ASSERT_EQ(read(*file, at, 70'000), text.substr(at, 70'000));
    wanted += 70'000;
  }
  EXPECT_LE(static_cast<double>(fetched()), 1.6 * static_cast<double>(wanted));
}

TEST_F(HttpCache, UnwritableFolder) {
  const HttpServer server({{"/a", text_}});
  folder_.write("file", "");
  const LogCapture log;
  use(1 << 30, folder_ / "file/cache");
  EXPECT_EQ(read(*open(server), 0, text_.size()), text_);
  EXPECT_EQ(read(*open(server), 10, 10), text_.substr(10, 10));
  EXPECT_EQ(log.count("is no longer written, and the run continues without it"), 1);
}

TEST_F(HttpCache, FullDisk) {
  const HttpServer server({{"/a", text_}});
  const LogCapture log;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{100'000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  const auto file = open(server);
  EXPECT_EQ(read(*file, 0, text_.size()), text_);
  EXPECT_EQ(read(*file, 0, text_.size()), text_);
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(log.count("is no longer written, and the run continues without it"), 1);
  // The last block is a small one; of the large ones nothing is left.
  for (const auto& block : cached_blocks(cache()))
    EXPECT_LT(std::filesystem::file_size(block), 100'000);
  EXPECT_FALSE(std::filesystem::exists(cache() + "/writing"));
  use();
  EXPECT_EQ(read(*open(server), 0, text_.size()), text_);
  EXPECT_EQ(cached_blocks(cache()).size(), 4);
}

TEST_F(HttpCache, ServersWithoutRangesOrVersions) {
  for (const bool ranges : {false, true}) {
    const HttpServer server({{"/a", text_}}, {.ranges = ranges, .etags = !ranges});
    const std::string path = server.url() + "/a";
    for (int round = 0; round < 2; ++round) {
      std::string out(text_.size(), '\0');
      EXPECT_TRUE(default_file_system()->read_whole(path, default_file_system()->info(path),
                                                    reinterpret_cast<std::byte*>(out.data())));
      EXPECT_EQ(out, text_);
    }
  }
  EXPECT_TRUE(cached_blocks(cache()).empty());
}

TEST_F(HttpCache, ConcurrentThreads) {
  const std::string text = noise(20 * kBlock);
  const HttpServer server({{"/a", text}});
  use(12 * kBlock);
  const auto file = open(server);
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 6; ++t)
      threads.emplace_back([&, t] {
        std::mt19937 random(t);
        for (int i = 0; i < 60; ++i) {
          const std::size_t size = 1 + random() % 300'000;
          const std::size_t at = random() % (text.size() - size);
          if (read(*file, at, size) != text.substr(at, size)) ++wrong;
        }
      });
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(bytes_of_blocks(cache()), 12 * kBlock);
}

}  // namespace
}  // namespace penstock::test
