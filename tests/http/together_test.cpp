// A group's pieces of many shards on a server are asked for at once.
#include <chrono>

#include <gtest/gtest.h>

#include <penstock/remote_files.h>

#include "pipeline/sources/group_read.h"
#include "tests/support/context.h"
#include "tests/support/files.h"
#include "tests/support/http_server.h"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kShards = 12;

std::string contents_of(std::size_t shard) {
  return noise(2'000'000, shard + 1);
}

class ReadTogether : public testing::Test {
 protected:
  ReadTogether() {
    choose_remote({});
    RemoteOptions options;
    options.retry_wait = 1ms;
    choose_remote(options);
    for (std::size_t shard = 0; shard < kShards; ++shard)
      files_["/" + std::to_string(shard)] = contents_of(shard);
  }
  ~ReadTogether() override { choose_remote({}); }

  static std::vector<std::string> urls(const HttpServer& server) {
    std::vector<std::string> all;
    for (std::size_t shard = 0; shard < kShards; ++shard)
      all.push_back(server.url() + "/" + std::to_string(shard));
    return all;
  }
  /// Two of each shard, far from each other and from the beginning.
  static std::vector<ReadPiece> some_pieces() {
    std::vector<ReadPiece> pieces;
    for (std::size_t i = 0; i < 2 * kShards; ++i)
      pieces.push_back({.item = i,
                        .shard = i * 5 % kShards,
                        .offset = 1'900'000 - i / kShards * 1'200'000,
                        .size = 3000});
    return pieces;
  }

  HttpServer::Files files_;
  HeapContext context_;
};

TEST_F(ReadTogether, WaitsForThemOnce) {
  const HttpServer server(files_, {.latency = 200ms});
  const Shards shards({}, urls(server));
  std::vector<ReadPiece> pieces = some_pieces();
  const std::uint64_t before = server.requests();
  std::size_t arrived = 0;
  read_pieces(shards, pieces, context_, [&](ReadPiece& piece) {
    ++arrived;
    ASSERT_TRUE(piece.status.ok()) << piece.status.error().what();
    EXPECT_EQ(as_text(piece.bytes), contents_of(piece.shard).substr(piece.offset, piece.size));
  });
  EXPECT_EQ(arrived, pieces.size());
  EXPECT_EQ(server.requests() - before, pieces.size());
  EXPECT_GE(server.most_at_once(), pieces.size() / 2) << "one after the other";
}

TEST_F(ReadTogether, ChangedShard) {
  HttpServer server(files_);
  const Shards shards({}, urls(server));
  server.replace("/3", noise(2'000'000, 99));
  std::vector<ReadPiece> pieces = some_pieces();
  pieces.push_back({.item = 100, .shard = 5, .offset = 1'999'999, .size = 2});  // beyond its end
  std::size_t bad = 0;
  read_pieces(shards, pieces, context_, [&](ReadPiece& piece) {
    if (piece.status.ok()) {
      EXPECT_EQ(as_text(piece.bytes), contents_of(piece.shard).substr(piece.offset, piece.size));
      return;
    }
    ++bad;
    EXPECT_TRUE(piece.shard == 3 || piece.item == 100) << piece.shard;
    EXPECT_EQ(piece.status.error().code(),
              piece.item == 100 ? ErrorCode::data_loss : ErrorCode::changed);
  });
  EXPECT_EQ(bad, 3);
}

TEST_F(ReadTogether, PiecesWithoutMemory) {
  class Limited final : public WorkContext {
   public:
    BufferPtr allocate(std::size_t bytes) override {
      if (++allocations_ > 4) throw Error(ErrorCode::resource_exhausted, "no more");
      return allocate_buffer(bytes);
    }

   private:
    int allocations_ = 0;
  } context;
  const HttpServer server(files_);
  const Shards shards({}, urls(server));
  std::vector<ReadPiece> pieces = some_pieces();
  std::size_t bad = 0;
  read_pieces(shards, pieces, context, [&](ReadPiece& piece) {
    if (piece.status.ok()) {
      EXPECT_EQ(as_text(piece.bytes), contents_of(piece.shard).substr(piece.offset, piece.size));
    } else {
      ++bad;
      EXPECT_EQ(piece.status.error().code(), ErrorCode::resource_exhausted);
    }
  });
  EXPECT_EQ(bad, 2 * (kShards - 4));
}

}  // namespace
}  // namespace penstock::test
