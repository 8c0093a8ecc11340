// TFRecord files that are cut, damaged or replaced: SEMANTICS item 7, FAULTS F1-F5, F27 and F29.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <penstock/sources.h>

#include "pipeline/io/fault.h"
#include "pipeline/io/memory.h"
#include "tests/sources/tfrecord_shards.h"
#include "tests/support/deflate.h"
#include "tests/support/errors.h"
#include "tests/support/figure.h"
#include "tests/support/files.h"
#include "tests/support/log_capture.h"
#include "tests/support/records.h"

namespace penstock {
namespace tfrecord_damage_test {

using test::deflated;
using test::read_indices;
using test::read_source;
using test::ReadOutcome;
using test::some_records;
using test::texts_of;
using test::tfrecord_header;
using test::tfrecord_of;
using test::tfrecord_source;
using test::tfrecords_of;
using test::Wrapper;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Damage : public ::testing::TestWithParam<Wrapper> {
 protected:
  /// The damaged shard, plain or inside a sound wrapper, followed by a sound shard.
  std::vector<ReadOutcome> read_damaged(const std::string& shard) {
    return read_source(*tfrecord_source(
        {deflated(shard, GetParam()), deflated(tfrecord_of("next shard"), GetParam())}));
  }
};

TEST_P(Damage, FlippedBits) {
  const std::vector<std::string> records = {"first", "", "the third record"};
  const std::string sound = tfrecords_of(records);
  const std::size_t starts[] = {0, 21, 37, sound.size()};
  for (std::size_t bit = 0; bit < sound.size() * 8; ++bit) {
    std::string shard = sound;
    shard[bit / 8] = static_cast<char>(shard[bit / 8] ^ (1 << (bit % 8)));
    const std::vector<ReadOutcome> got = read_damaged(shard);
    std::size_t hit = 0;
    while (bit / 8 >= starts[hit + 1]) ++hit;
    const bool in_header = bit / 8 < starts[hit] + 12;
    const std::size_t delivered = in_header ? hit + 1 : records.size();
    ASSERT_EQ(got.size(), delivered + 1) << bit;
    for (std::size_t i = 0; i < delivered; ++i) {
      ASSERT_EQ(got[i].text(), i == hit ? "!data_loss" : records[i]) << bit;
    }
    ASSERT_EQ(got.back().text(), "next shard");
    ASSERT_EQ(got[hit].error->where().shard, "0");
    ASSERT_EQ(got[hit].error->where().offset, static_cast<std::int64_t>(starts[hit]));
    ASSERT_EQ(got[hit].error->where().index, static_cast<std::int64_t>(hit));
  }
  test::figure("F3", "%s: %zu of %zu flipped bits of a shard found, only their records lost",
               name_of(GetParam()).c_str(), sound.size() * 8, sound.size() * 8);
}

TEST_P(Damage, TruncationAtEveryByte) {
  const std::vector<std::string> records = {"first", "", "the third record"};
  const std::string sound = tfrecords_of(records);
  const std::size_t starts[] = {0, 21, 37, sound.size()};
  for (std::size_t cut = 0; cut <= sound.size(); ++cut) {
    const std::vector<ReadOutcome> got = read_damaged(sound.substr(0, cut));
    std::size_t whole = 0;
    while (whole < 3 && cut >= starts[whole + 1]) ++whole;
    const bool clean = cut == starts[whole];
    ASSERT_EQ(got.size(), whole + (clean ? 0 : 1) + 1) << cut;
    for (std::size_t i = 0; i < whole; ++i) ASSERT_EQ(got[i].text(), records[i]);
    ASSERT_EQ(got.back().text(), "next shard");
    if (clean) continue;
    ASSERT_EQ(got[whole].text(), "!data_loss");
    ASSERT_THAT(got[whole].error->what(), HasSubstr("truncated at byte " + std::to_string(cut)));
    ASSERT_EQ(got[whole].error->where().offset, static_cast<std::int64_t>(starts[whole]));
  }
  test::figure("F4",
               "%s: cut at each of %zu bytes: what is whole is delivered, one error says where",
               name_of(GetParam()).c_str(), sound.size() + 1);
}

TEST_P(Damage, HostileLengths) {
  constexpr std::uint64_t kTop = 1ULL << 63, kMax = UINT64_MAX;
  const std::uint64_t lengths[] = {
      1,         100,       1 << 20,   1U << 31,  1ULL << 32, (1ULL << 32) + 5, 1ULL << 62,
      kTop,      kTop - 1,  kTop + 12, kMax,      kMax - 1,   kMax - 3,         kMax - 4,
      kMax - 11, kMax - 12, kMax - 15, kMax - 16, kMax - 17,  kMax - 28};
  std::uint64_t most = 0;
  for (const std::uint64_t length : lengths) {
    const std::string shard = tfrecord_of("ok") + tfrecord_header(length);
    const SourcePtr source = tfrecord_source({deflated(shard, GetParam())});
    test::HeapContext context;
    if (source->size()) {
      ASSERT_EQ(source->size(), 2u);
      std::vector<ReadItem> items(2);
      items[1].index = 1;
      source->read(items, context);
      EXPECT_TRUE(items[0].status.ok());
      EXPECT_FALSE(items[1].status.ok()) << length;
    } else {
      const auto stream = source->stream();
      ReadItem item;
      EXPECT_TRUE(stream->next(item, context));
      EXPECT_TRUE(item.status.ok());
      ReadItem bad;
      EXPECT_TRUE(stream->next(bad, context));
      EXPECT_FALSE(bad.status.ok()) << length;
      EXPECT_FALSE(stream->next(bad, context));
    }
    EXPECT_LT(context.allocated_bytes, 4u << 20) << length;
    most = std::max<std::uint64_t>(most, context.allocated_bytes);
  }
  test::figure("F27", "%s: %zu hostile lengths refused, at most %llu bytes allocated",
               name_of(GetParam()).c_str(), std::size(lengths),
               static_cast<unsigned long long>(most));
}

INSTANTIATE_TEST_SUITE_P(TFRecord, Damage,
                         ::testing::Values(Wrapper::none, Wrapper::gzip, Wrapper::zlib),
                         [](const auto& test) { return name_of(test.param); });

TEST(TFRecord, DamagedCompression) {
  std::vector<std::string> records = some_records();
  records.resize(60);
  for (const Wrapper wrapper : {Wrapper::gzip, Wrapper::zlib}) {
    const std::string sound = deflated(tfrecords_of(records), wrapper);
    TFRecordOptions options;
    options.compression = wrapper == Wrapper::gzip ? Compression::gzip : Compression::zlib;
    for (std::size_t i = 0; i < 200; ++i) {
      std::string shard = sound;
      const std::size_t at = i < 20 ? i : i * 7919 * 31 % sound.size();
      if (i % 2 == 0) {
        shard.resize(at);
      } else {
        shard[at] = static_cast<char>(shard[at] ^ (1 << (i % 8)));
      }
      const auto got =
          read_source(*tfrecord_source({shard, deflated(tfrecord_of("z"), wrapper)}, options));
      ASSERT_FALSE(got.empty());
      EXPECT_EQ(got.back().text(), "z");
      std::size_t errors = 0;
      for (std::size_t k = 0; k + 1 < got.size(); ++k) {
        errors += got[k].error.has_value();
        if (!got[k].error) {
          ASSERT_EQ(got[k].text(), records[k]) << "silent damage at " << at;
        }
      }
      // A gzip header's time, flags and system name are not covered by any checksum, and an empty
      // file is an empty shard.
      const bool harmless = i % 2 == 1 ? wrapper == Wrapper::gzip && at < 10 : at == 0;
      if (!harmless) {
        EXPECT_GE(errors, 1u) << at;
      }
    }
  }
}

TEST(TFRecord, DamageWithinARecord) {
  const std::string record = tfrecord_of(test::noise(3 << 20));
  const std::string front = deflated(record.substr(0, record.size() / 2), Wrapper::gzip);
  std::string behind = deflated(record.substr(record.size() / 2), Wrapper::gzip);
  behind[2] = 9;  // no method of gzip
  const auto damaged = read_source(*tfrecord_source({front + behind}));
  ASSERT_EQ(damaged.size(), 1u);
  EXPECT_THAT(damaged[0].error->cause(), HasSubstr("its method is not deflate"));
  const auto cut = read_source(*tfrecord_source({front}));
  ASSERT_EQ(cut.size(), 1u);
  EXPECT_THAT(cut[0].error->cause(), HasSubstr("truncated"));
}

TEST(TFRecord, GarbageBehindTheEnd) {
  for (const Wrapper wrapper : {Wrapper::gzip, Wrapper::zlib}) {
    const std::string sound = deflated(tfrecords_of({"a", "b"}), wrapper);
    for (const std::string& garbage :
         {std::string("x"), std::string("trailing garbage"), test::noise(300'000),
          std::string("\x1f\x8c") + test::noise(20), std::string(600, '\0') + "text"}) {
      const auto got = read_source(*tfrecord_source({sound + garbage}));
      EXPECT_THAT(texts_of(got), ElementsAre("a", "b", "!data_loss"));
      const std::size_t begin = sound.size() + garbage.find_first_not_of('\0');
      EXPECT_THAT(got[2].error->cause(),
                  HasSubstr("trailing garbage: behind the end of the compressed data, at byte " +
                            std::to_string(begin)));
    }
  }
}

TEST(TFRecord, CompressionBombs) {
  const std::string bomb = deflated(tfrecord_of(std::string(20 << 20, '\0')), Wrapper::gzip, 9);
  ASSERT_LT(bomb.size(), 50'000u);
  TFRecordOptions options;
  options.limits.max_record_bytes = 10 << 20;
  const SourcePtr by_size = tfrecord_source({bomb}, options);
  test::HeapContext context;
  ReadItem item;
  EXPECT_TRUE(by_size->stream()->next(item, context));
  EXPECT_EQ(test::outcome_of(item).text(), "!out_of_range");
  EXPECT_LT(context.allocated_bytes, 1u << 20);
  test::figure("F29",
               "%zu bytes of gzip that claim a record of 20 MiB: refused with %llu bytes "
               "allocated",
               bomb.size(), static_cast<unsigned long long>(context.allocated_bytes));
  options.limits = {.max_inflate_ratio = 200};
  const SourcePtr by_ratio = tfrecord_source({bomb}, options);
  ReadItem other;
  EXPECT_TRUE(by_ratio->stream()->next(other, context));
  EXPECT_FALSE(other.status.ok());
}

TEST(TFRecord, DamageInACache) {
  test::LogCapture log;
  const auto inner = make_memory_file_system({{"f", tfrecords_of({"aaa", "bbb"})}});
  for (const std::uint64_t bit : {8u * 3, 8u * 13, 8u * 25}) {
    FaultOptions faults{.flip_bits = {{"f", {bit}}}};
    TFRecordOptions options;
    options.files = std::make_shared<FaultFileSystem>(inner, faults);
    EXPECT_THAT(texts_of(read_source(*make_tfrecord_source({"f"}, options))),
                ElementsAre("aaa", "bbb"));
    faults.flip_uncached = true;
    options.files = std::make_shared<FaultFileSystem>(inner, faults);
    EXPECT_THAT(texts_of(read_source(*make_tfrecord_source({"f"}, options))),
                ::testing::Contains("!data_loss"));
  }
  EXPECT_GE(log.count("from the disk again"), 1u);
}

TEST(TFRecord, RandomFaults) {
  const std::vector<std::string> records = some_records();
  const auto inner = make_memory_file_system({{"a", tfrecords_of(records)}});
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    TFRecordOptions options;
    options.files = std::make_shared<FaultFileSystem>(inner, FaultOptions{.seed = seed,
                                                                          .fail_share = 0.02,
                                                                          .flip_share = 0.1,
                                                                          .flip_uncached = true,
                                                                          .split = true});
    try {
      const auto got = read_source(*make_tfrecord_source({"a"}, options));
      for (std::size_t i = 0; i < got.size(); ++i) {
        if (!got[i].error) {
          ASSERT_EQ(got[i].text(), records[i]) << seed;
        }
      }
    } catch (const Error&) {
    }
  }
}

TEST(TFRecord, ChangedShard) {
  const test::TempFolder folder;
  const std::string path = folder.write("f", tfrecords_of({"old1", "old2"}));
  const auto read_after = [&](const auto& change) {
    const SourcePtr source = make_tfrecord_source({path}, {});
    EXPECT_EQ(texts_of(read_indices(*source, {0}))[0], "old1");
    change();
    const auto got = read_indices(*source, {1});
    EXPECT_EQ(got[0].text(), "!changed");
    EXPECT_THAT(got[0].error->what(), HasSubstr("since it was found"));
    folder.write("f", tfrecords_of({"old1", "old2"}));
  };
  read_after([&] { folder.write("f", tfrecords_of({"new1", "new2"})); });
  read_after([&] { folder.write("f", tfrecords_of({"old1", "old2", "old3"})); });
  read_after([&] {
    folder.write("g", tfrecords_of({"new1", "new2"}));
    ASSERT_EQ(::rename((folder / "g").c_str(), path.c_str()), 0);
  });
  read_after([&] { std::filesystem::remove(path); });
  test::figure("F5", "4 of 4 ways to replace a shard while it is read are errors, no mixture");
}

}  // namespace tfrecord_damage_test
}  // namespace penstock
