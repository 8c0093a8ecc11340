// The source of windows of tokens.
#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/iterator.h>
#include <penstock/sources.h>

#include "pipeline/io/memory.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/records.h"

namespace penstock {
namespace token_shards_test {

using test::expect_error;
using test::little_endian;
using ::testing::ElementsAre;
using Tokens = std::vector<std::int64_t>;
using Windows = std::vector<Tokens>;
using NamedFiles = std::vector<std::pair<std::string, std::string>>;

/// Returns `count` tokens from `first` on, without a header.
template <typename Token>
std::string raw(std::size_t count, std::uint64_t first = 0) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += little_endian(static_cast<Token>(first + i));
  return out;
}

std::string header(std::uint32_t magic, std::uint32_t version, std::uint32_t count) {
  std::string out = little_endian(magic) + little_endian(version) + little_endian(count);
  out.resize(1024);
  return out;
}

/// Returns a file of llm.c.
template <typename Token>
std::string shard(std::size_t count, std::uint64_t first = 0) {
  const bool wide = sizeof(Token) == 4;
  return header(wide ? 20240801 : 20240520, wide ? 7 : 1, static_cast<std::uint32_t>(count)) +
         raw<Token>(count, first);
}

Dataset windows_in(const NamedFiles& contents, std::int64_t window,
                   TokenShardsOptions options = {}) {
  auto files = std::make_shared<MemoryFileSystem>();
  Paths paths;
  for (const auto& [name, bytes] : contents) {
    files->add(name, bytes);
    paths.push_back(name);
  }
  options.files = files;
  return token_shards(paths, window, options);
}

Tokens values_of(const Tensor& tensor) {
  Tokens out;
  const auto add = [&]<typename T>(T) {
    for (const T value : tensor.values<T>()) out.push_back(static_cast<std::int64_t>(value));
  };
  switch (tensor.dtype()) {
    case DType::u16:
      add(std::uint16_t{});
      break;
    case DType::u32:
      add(std::uint32_t{});
      break;
    case DType::i32:
      add(std::int32_t{});
      break;
    default:
      add(std::int64_t{});
  }
  return out;
}

/// Returns the windows of an iterator's epoch, or of its rest. They may come in batches.
Windows rest_of(Iterator& iterator) {
  Windows out;
  for (const Element& element : iterator) {
    if (element.valid_rows < 0) out.push_back(values_of(element[0]));
    for (std::int64_t row = 0; row < element.valid_rows; ++row)
      out.push_back(values_of(element[0][row]));
  }
  return out;
}

Windows windows_of(const Dataset& dataset, std::uint64_t seed = 0) {
  Iterator iterator = dataset.iterate({.seed = seed, .threads = 2});
  return rest_of(iterator);
}

TEST(TokenShards, Formats) {
  const std::vector<std::pair<std::string, DType>> files{
      {raw<std::uint16_t>(5, 65530), DType::u16},
      {shard<std::uint16_t>(5, 65530), DType::u32},  // the header counts
      {raw<std::uint32_t>(5, 65530), DType::u32},
      {shard<std::uint32_t>(5, 65530), DType::u16}};
  for (const auto& [bytes, stored] : files) {
    for (const DType dtype : {DType::i32, DType::i64, DType::u32}) {
      TokenShardsOptions options;
      options.stored = stored;
      options.dtype = dtype;
      const Dataset windows = windows_in({{"a.bin", bytes}}, 2, options);
      EXPECT_EQ(windows.spec().to_string(), "{tokens: " + std::string(name_of(dtype)) + " [3]}");
      EXPECT_THAT(windows_of(windows),
                  ElementsAre(Tokens{65530, 65531, 65532}, Tokens{65532, 65533, 65534}));
      EXPECT_EQ(windows_of(windows.batch(2)), windows_of(windows));
    }
  }
  TokenShardsOptions narrow;
  narrow.dtype = DType::u16;
  EXPECT_THAT(windows_of(windows_in({{"a.bin", shard<std::uint16_t>(2, 65534)}}, 1, narrow)),
              ElementsAre(Tokens{65534, 65535}));
  const Dataset mixed = windows_in({{"a", shard<std::uint32_t>(3, 70000)},
                                    {"b", shard<std::uint16_t>(3)},
                                    {"c", raw<std::uint16_t>(3, 9)}},
                                   2);
  EXPECT_THAT(windows_of(mixed.batch(8)),
              ElementsAre(Tokens{70000, 70001, 70002}, Tokens{0, 1, 2}, Tokens{9, 10, 11}));
}

TEST(TokenShards, ConversionAtEveryLength) {
  for (std::int64_t window = 1; window < 70; ++window) {
    for (const bool wide : {false, true}) {
      for (const DType dtype : {DType::i32, DType::i64, DType::u32, DType::u16}) {
        if (wide && dtype == DType::u16) continue;
        const auto count = static_cast<std::size_t>(3 * window + 1);
        TokenShardsOptions options;
        options.dtype = dtype;
        const Dataset windows = windows_in(
            {{"a", wide ? shard<std::uint32_t>(count, 1) : shard<std::uint16_t>(count, 1)}}, window,
            options);
        Windows expected;
        for (const std::int64_t first : {std::int64_t{0}, window, 2 * window}) {
          expected.emplace_back();
          for (std::int64_t i = 0; i <= window; ++i) expected.back().push_back(1 + first + i);
        }
        ASSERT_EQ(windows_of(windows), expected) << window;
        ASSERT_EQ(windows_of(windows.batch(3)), expected) << window;  // read as one run
        Windows shuffled = windows_of(windows.shuffle().batch(1));    // and each by itself
        std::ranges::sort(shuffled);
        ASSERT_EQ(shuffled, expected) << window;
      }
    }
  }
}

TEST(TokenShards, BoundarySizes) {
  constexpr std::int64_t kWindow = 4;
  struct Case {
    std::size_t tokens;
    std::size_t dropped;  // windows
    std::size_t kept;
    std::size_t last;  // tokens of the last one that is kept
  };
  const Case cases[] = {{0, 0, 0, 0}, {1, 0, 0, 0}, {2, 0, 1, 2}, {4, 0, 1, 4},
                        {5, 1, 1, 5}, {6, 1, 2, 2}, {8, 1, 2, 4}, {9, 2, 2, 5}};
  for (const Case& one : cases) {
    for (const bool keep : {false, true}) {
      TokenShardsOptions options;
      options.keep_remainder = keep;
      // Behind a file that has one window in any case.
      const Dataset windows = windows_in(
          {{"one", raw<std::uint16_t>(5, 100)}, {"some", shard<std::uint16_t>(one.tokens)}},
          kWindow, options);
      EXPECT_EQ(windows.spec().to_string(), keep ? "{tokens: i32 [?]}" : "{tokens: i32 [5]}");
      const Windows all = windows_of(windows);
      ASSERT_EQ(all.size(), 1 + (keep ? one.kept : one.dropped)) << one.tokens;
      EXPECT_EQ(windows.cardinality(), static_cast<std::int64_t>(all.size()));
      EXPECT_EQ(all[0], (Tokens{100, 101, 102, 103, 104}));
      if (keep && one.kept > 0) {
        EXPECT_EQ(all.back().size(), one.last);
        EXPECT_EQ(all.back().back(), static_cast<std::int64_t>(one.tokens) - 1);
      }
      for (std::size_t i = 1; i < all.size(); ++i)
        EXPECT_EQ(all[i].front(), static_cast<std::int64_t>(i - 1) * kWindow);
    }
  }
  TokenShardsOptions keep;
  keep.keep_remainder = true;
  const Dataset ragged = windows_in({{"a", raw<std::uint16_t>(7)}}, 4, keep);
  EXPECT_THAT(windows_of(ragged.padded_batch(2)),
              ElementsAre(Tokens{0, 1, 2, 3, 4}, Tokens{4, 5, 6, 0, 0}));
}

TEST(TokenShards, FilesWithoutAWindow) {
  for (const std::size_t tokens : {std::size_t{0}, std::size_t{1}, std::size_t{4}}) {
    expect_error(ErrorCode::invalid_argument,
                 "no file has the 5 tokens of a window; this one has " + std::to_string(tokens),
                 [&] {
                   windows_in({{"a", ""}, {"b", raw<std::uint16_t>(tokens)}}, 4);
                 });
  }
}

NamedFiles three_shards() {
  return {{"a", shard<std::uint16_t>(300)},
          {"b", shard<std::uint16_t>(41, 1000)},
          {"c", raw<std::uint16_t>(125, 2000)}};
}

TEST(TokenShards, PlacesOfWindows) {
  const Dataset windows = windows_in(three_shards(), 4);
  const SourcePtr source = make_token_shards_source({"x"}, 4, [] {
    TokenShardsOptions options;
    options.files = make_memory_file_system({{"x", shard<std::uint16_t>(13)}});
    return options;
  }());
  EXPECT_EQ(windows.cardinality(), 74 + 10 + 31);
  EXPECT_EQ(source->locate(2).to_string(), "x @1040 record 2");
  EXPECT_EQ(source->locate(2).length, 10);
}

TEST(TokenShards, ShuffleOfAllWindows) {
  const Dataset windows = windows_in(three_shards(), 4);
  const Windows in_order = windows_of(windows);
  Windows shuffled = windows_of(windows.shuffle().batch(8), 5);
  EXPECT_NE(shuffled, in_order);
  EXPECT_NE(shuffled, windows_of(windows.shuffle().batch(8), 6));
  // The first windows come from all shards.
  std::set<std::int64_t> shards;
  for (std::size_t i = 0; i < 30; ++i) shards.insert(shuffled[i][0] / 1000);
  EXPECT_EQ(shards.size(), 3);
  std::ranges::sort(shuffled);
  EXPECT_EQ(shuffled, in_order);
}

TEST(TokenShards, OrderOfAnyNumberOfRanks) {
  const Dataset shuffled = windows_in(three_shards(), 4).shuffle();
  const Windows all = windows_of(shuffled, 5);
  for (const std::int64_t ranks : {1, 2, 3, 7}) {
    std::vector<Windows> parts;
    for (std::int64_t rank = 0; rank < ranks; ++rank)
      parts.push_back(windows_of(shuffled.shard(ranks, rank).batch(4), 5));
    Windows joined;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Windows& part = parts[i % static_cast<std::size_t>(ranks)];
      ASSERT_LT(i / static_cast<std::size_t>(ranks), part.size());
      joined.push_back(part[i / static_cast<std::size_t>(ranks)]);
    }
    EXPECT_EQ(joined, all) << ranks;
  }
}

TEST(TokenShards, ResumeAtEveryBatch) {
  for (const bool shuffle : {false, true}) {
    const Dataset windows = windows_in(three_shards(), 4);
    const Dataset batches = (shuffle ? windows.shuffle() : windows).shard(2, 1).batch(5);
    const Windows all = windows_of(batches, 9);
    Iterator iterator = batches.iterate({.seed = 9, .threads = 2});
    Windows front;
    for (;;) {
      Iterator resumed = batches.restore(iterator.save(), {.seed = 9, .threads = 1});
      Windows joined = front;
      for (Tokens& tokens : rest_of(resumed)) joined.push_back(std::move(tokens));
      ASSERT_EQ(joined, all) << front.size();
      Next next = iterator.next();
      if (next.is_end()) break;
      for (std::int64_t row = 0; row < next->valid_rows; ++row)
        front.push_back(values_of((*next)[0][row]));
    }
  }
}

TEST(TokenShards, HostileHeaders) {
  const auto refused = [](const std::string& bytes, const std::string& text,
                          ErrorCode code = ErrorCode::data_loss) {
    expect_error(code, text, [&] {
      windows_in({{"good", shard<std::uint16_t>(9)}, {"bad", bytes}}, 4);
    });
    expect_error(code, "bad", [&] { windows_in({{"bad", bytes}}, 4); });
  };
  const std::string tokens = raw<std::uint16_t>(9);
  refused(header(20240520, 1, 10) + tokens, "promises 10 tokens of 2 bytes, but 18 bytes follow");
  refused(header(20240520, 1, 8) + tokens, "promises 8 tokens of 2 bytes, but 18 bytes follow");
  refused(header(20240520, 1, 9) + tokens + "x", "but 19 bytes follow");
  refused(header(20240520, 1, UINT32_MAX) + tokens, "promises -1 tokens");
  refused(header(20240520, 1, 0x80000000U) + tokens, "promises -2147483648 tokens");
  refused(header(20240801, 7, 9) + tokens, "promises 9 tokens of 4 bytes, but 18 bytes follow");
  refused(header(20240520, 2, 9) + tokens, "20240520 of llm.c has version 2; version 1 is read");
  refused(header(20240801, 1, 9) + raw<std::uint32_t>(9), "20240801 of llm.c has version 1");
  refused(header(20240522, 1, 9) + tokens, "multiple-choice");
  for (const std::uint32_t magic : {20240520U, 20240801U}) {
    const std::uint32_t version = magic == 20240520 ? 1 : 7;
    refused(header(__builtin_bswap32(magic), __builtin_bswap32(version), 0x09000000) + tokens,
            "byte order");
  }
  refused(tokens + "x", "the file has 19 bytes and no header, but tokens of 2 bytes");
  refused(std::string("\x1f\x8b\x08", 3) + tokens, "gunzip");
  // Two tokens may be the bytes of a magic in the other byte order.
  const std::string alike = little_endian(__builtin_bswap32(20240520)) + tokens;
  EXPECT_EQ(windows_in({{"raw", alike}}, 4).cardinality(), 2);
}

TEST(TokenShards, HeaderCutAtEveryByte) {
  const std::string whole = shard<std::uint16_t>(9);
  for (std::size_t size = 4; size < whole.size(); ++size) {
    expect_error(ErrorCode::data_loss, "cut", [&] {
      windows_in({{"cut", whole.substr(0, size)}}, 4);
    });
  }
}

TEST(TokenShards, TokensThatI32CannotHold) {
  std::string bytes = raw<std::uint32_t>(9);
  bytes.replace(5 * 4, 4, little_endian(std::uint32_t{0x80000000}));
  TokenShardsOptions options;
  options.stored = DType::u32;
  for (const std::int64_t rows : {0, 1, 2}) {
    const Dataset windows = windows_in({{"a", bytes}}, 4, options);
    Iterator iterator = (rows == 0 ? windows : windows.batch(rows)).iterate();
    Next next = iterator.next();
    if (rows < 2) {
      EXPECT_EQ(values_of((*next)[0]), (Tokens{0, 1, 2, 3, 4}));
      next = iterator.next();
    }
    ASSERT_TRUE(next.is_error());
    EXPECT_EQ(next.error().code(), ErrorCode::data_loss);
    EXPECT_THAT(next.error().what(), testing::HasSubstr("a @16 record 1"));
  }
  options.dtype = DType::i64;
  EXPECT_EQ(windows_of(windows_in({{"a", bytes}}, 4, options)).at(1),
            (Tokens{4, 0x80000000, 6, 7, 8}));
}

TEST(TokenShards, Rejects) {
  const NamedFiles files{{"a", raw<std::uint16_t>(9)}};
  const auto refused = [&](ErrorCode code, const std::string& text, std::int64_t window,
                           DType stored, DType dtype) {
    TokenShardsOptions options;
    options.stored = stored;
    options.dtype = dtype;
    expect_error(code, text, [&] { windows_in(files, window, options); });
  };
  refused(ErrorCode::invalid_argument, "a window of 0", 0, DType::u16, DType::i32);
  refused(ErrorCode::invalid_argument, "a window of -1", -1, DType::u16, DType::i32);
  refused(ErrorCode::invalid_argument, "not i32", 4, DType::i32, DType::i32);
  refused(ErrorCode::invalid_argument, "not f32", 4, DType::u16, DType::f32);
  refused(ErrorCode::out_of_range, "limit", INT64_MAX, DType::u16, DType::i32);
  refused(ErrorCode::out_of_range, "limit", INT64_MAX / 8, DType::u16, DType::i64);
  TokenShardsOptions narrow;
  narrow.dtype = DType::u16;
  expect_error(ErrorCode::invalid_argument, "tokens of u32 do not fit u16", [&] {
    windows_in({{"a", shard<std::uint32_t>(9)}}, 4, narrow);
  });
  const auto missing = test::thrown_by([&] { token_shards({"/nowhere/x", "/nowhere/y*"}, 4); });
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->code(), ErrorCode::not_found);
  EXPECT_THAT(missing->what(),
              testing::AllOf(testing::HasSubstr("/nowhere/x"), testing::HasSubstr("/nowhere/y*")));
}

}  // namespace token_shards_test
}  // namespace penstock
