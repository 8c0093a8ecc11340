#include <penstock/sources.h>

#include <algorithm>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include "pipeline/io/fault.h"
#include "pipeline/io/memory.h"
#include "pipeline/io/pread.h"
#include "tests/support/deflate.h"
#include "tests/support/errors.h"
#include "tests/support/figure.h"
#include "tests/support/files.h"
#include "tests/support/log_capture.h"
#include "tests/support/records.h"

namespace penstock {
namespace {

using test::deflated;
using test::read_indices;
using test::read_source;
using test::ReadOutcome;
using test::texts_of;
using test::tfrecord_header;
using test::tfrecord_of;
using test::tfrecords_of;
using test::Wrapper;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string name_of(Wrapper wrapper) {
  return wrapper == Wrapper::none ? "plain" : wrapper == Wrapper::gzip ? "gzip" : "zlib";
}

/// A source over shards in memory, named "0", "1", …
SourcePtr source_of(const std::vector<std::string>& shards, TFRecordOptions options = {}) {
  std::vector<std::pair<std::string, std::string>> files;
  Paths paths;
  for (const std::string& shard : shards) {
    paths.push_back(std::to_string(paths.size()));
    files.emplace_back(paths.back(), shard);
  }
  options.files = make_memory_file_system(files);
  return make_tfrecord_source(paths, options);
}

std::vector<std::string> some_records() {
  std::vector<std::string> records;
  for (std::size_t i = 0; i < 300; ++i)
    records.push_back(test::noise(i % 7 == 0 ? i * 600 : i % 40, i));
  return records;
}

TEST(TFRecord, ReadsTensorFlowsBytes) {
  const std::string golden(
      "\x05\0\0\0\0\0\0\0\xea\xb2\x04\x3e"
      "hello"
      "\xbb\x1f\x1c\x19",
      21);
  EXPECT_EQ(tfrecord_of("hello"), golden);
  const SourcePtr source = source_of({golden});
  EXPECT_EQ(source->spec().to_string(), "{record: bytes []}");
  EXPECT_EQ(source->name(), "tfrecord");
  EXPECT_THAT(texts_of(read_source(*source)), ElementsAre("hello"));
}

/// Every way to the same records: file systems, compression.
class EveryWay : public ::testing::TestWithParam<std::tuple<std::string, Wrapper>> {};

TEST_P(EveryWay, DeliversTheSameRecords) {
  const std::string& files = std::get<0>(GetParam());
  const Wrapper wrapper = std::get<1>(GetParam());
  const std::vector<std::string> records = some_records();
  const test::TempFolder folder;
  const auto shard = [&](std::size_t from, std::size_t to) {
    return deflated(tfrecords_of({records.begin() + static_cast<long>(from),
                                  records.begin() + static_cast<long>(to)}),
                    wrapper);
  };
  folder.write("s-0", shard(0, 100));
  folder.write("s-1", deflated("", wrapper));
  folder.write("s-2", shard(100, 101));
  folder.write("s-3", shard(101, 300));
  TFRecordOptions options;
  options.files = make_file_system(files);
  const SourcePtr source = make_tfrecord_source({folder / "s-*"}, options);
  EXPECT_EQ(source->size().has_value(), wrapper == Wrapper::none);
  EXPECT_THAT(texts_of(read_source(*source)), ElementsAreArray(records));
  if (wrapper != Wrapper::none) {
    const auto stream = source->stream();
    test::HeapContext context;
    stream->skip(98, context);
    ReadItem item;
    ASSERT_TRUE(stream->next(item, context));
    EXPECT_EQ(item.index, 98u);
    EXPECT_EQ(test::outcome_of(item).text(), records[98]);
    EXPECT_EQ(stream->locate().index, 98);
    stream->skip(1000, context);
    EXPECT_FALSE(stream->next(item, context));
    EXPECT_FALSE(stream->next(item, context));
    return;
  }
  std::vector<std::uint64_t> shuffled;
  std::vector<std::string> expected;
  for (std::uint64_t i = 0; i < 600; ++i) shuffled.push_back(i * 7919 % 300);
  for (const std::uint64_t i : shuffled) expected.push_back(records[i]);
  EXPECT_THAT(texts_of(read_indices(*source, shuffled)), ElementsAreArray(expected));
}

INSTANTIATE_TEST_SUITE_P(TFRecord, EveryWay,
                         ::testing::Combine(::testing::Values("pread", "io_uring", "mmap"),
                                            ::testing::Values(Wrapper::none, Wrapper::gzip,
                                                              Wrapper::zlib)),
                         [](const auto& test) {
                           return std::get<0>(test.param) + '_' + name_of(std::get<1>(test.param));
                         });

TEST(TFRecord, MixedShardsAndMembersAreOneStream) {
  const std::string a = tfrecord_of("a"), b = tfrecord_of("b"), c = tfrecord_of("c");
  const std::string members = deflated(a, Wrapper::gzip) + deflated(b, Wrapper::gzip);
  const SourcePtr source =
      source_of({c, members + std::string(100, '\0'), deflated(c, Wrapper::zlib), ""});
  EXPECT_FALSE(source->size());
  EXPECT_THAT(texts_of(read_source(*source)), ElementsAre("c", "a", "b", "c"));
}

TEST(TFRecord, LocatesRecords) {
  const SourcePtr source = source_of({tfrecords_of({"abc", "de"}), tfrecord_of("f")});
  EXPECT_EQ(source->locate(1).shard, "0");
  EXPECT_EQ(source->locate(1).offset, 19);
  EXPECT_EQ(source->locate(2).shard, "1");
  EXPECT_EQ(source->locate(2).offset, 0);
  EXPECT_EQ(source->locate(2).index, 2);
  EXPECT_EQ(source->record_bytes(0), 19u);
}

TEST(TFRecord, NeighboursShareOneBufferAndNothingIsCopied) {
  std::vector<std::string> records(64, std::string(100, 'x'));
  const test::TempFolder folder;
  const std::string path = folder.write("f", tfrecords_of(records));
  const SourcePtr source = make_tfrecord_source({path}, {});
  test::HeapContext context;
  std::vector<ReadItem> items(64);
  for (std::size_t i = 0; i < items.size(); ++i) items[i].index = 63 - i;
  source->read(items, context);
  EXPECT_EQ(context.allocations, 1u);
  EXPECT_EQ(context.allocated_bytes, 64u * 116);
  TFRecordOptions mapped;
  mapped.files = make_file_system("mmap");
  test::HeapContext none;
  make_tfrecord_source({path}, mapped)->read(items, none);
  EXPECT_EQ(none.allocations, 0u);
}

TEST(TFRecord, TensorsOutliveTheSource) {
  for (const char* files : {"pread", "mmap"}) {
    const test::TempFolder folder;
    TFRecordOptions options;
    options.files = make_file_system(files);
    SourcePtr source = make_tfrecord_source({folder.write("f", tfrecord_of("stay"))}, options);
    test::HeapContext context;
    ReadItem item;
    source->read({&item, 1}, context);
    source.reset();
    EXPECT_EQ(test::outcome_of(item).text(), "stay");
  }
}

// ---- Damage: SEMANTICS item 7, FAULTS F1-F5 and F27.

class Damage : public ::testing::TestWithParam<Wrapper> {
 protected:
  /// The damaged shard, plain or inside a sound wrapper, followed by a sound shard.
  std::vector<ReadOutcome> read_damaged(const std::string& shard) {
    return read_source(
        *source_of({deflated(shard, GetParam()), deflated(tfrecord_of("next shard"), GetParam())}));
  }
};

TEST_P(Damage, EveryFlippedBitIsFoundAndOnlyItsRecordIsLost) {
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

TEST_P(Damage, EveryTruncationKeepsWhatIsWholeAndSaysWhere) {
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

TEST_P(Damage, HostileLengthsAllocateNothing) {
  constexpr std::uint64_t kTop = 1ULL << 63, kMax = UINT64_MAX;
  const std::uint64_t lengths[] = {
      1,         100,       1 << 20,   1U << 31,  1ULL << 32, (1ULL << 32) + 5, 1ULL << 62,
      kTop,      kTop - 1,  kTop + 12, kMax,      kMax - 1,   kMax - 3,         kMax - 4,
      kMax - 11, kMax - 12, kMax - 15, kMax - 16, kMax - 17,  kMax - 28};
  std::uint64_t most = 0;
  for (const std::uint64_t length : lengths) {
    const std::string shard = tfrecord_of("ok") + tfrecord_header(length);
    const SourcePtr source = source_of({deflated(shard, GetParam())});
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

TEST(TFRecord, DamagedCompressionIsOneErrorAndTheNextShardGoesOn) {
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
          read_source(*source_of({shard, deflated(tfrecord_of("z"), wrapper)}, options));
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

TEST(TFRecord, DamageWithinARecordIsNotTakenForACut) {
  const std::string record = tfrecord_of(test::noise(3 << 20));
  const std::string front = deflated(record.substr(0, record.size() / 2), Wrapper::gzip);
  std::string behind = deflated(record.substr(record.size() / 2), Wrapper::gzip);
  behind[2] = 9;  // no method of gzip
  const auto damaged = read_source(*source_of({front + behind}));
  ASSERT_EQ(damaged.size(), 1u);
  EXPECT_THAT(damaged[0].error->cause(), HasSubstr("its method is not deflate"));
  const auto cut = read_source(*source_of({front}));
  ASSERT_EQ(cut.size(), 1u);
  EXPECT_THAT(cut[0].error->cause(), HasSubstr("truncated"));
}

TEST(TFRecord, BombsAreBounded) {
  const std::string bomb = deflated(tfrecord_of(std::string(20 << 20, '\0')), Wrapper::gzip, 9);
  ASSERT_LT(bomb.size(), 50'000u);
  TFRecordOptions options;
  options.limits.max_record_bytes = 10 << 20;
  const SourcePtr by_size = source_of({bomb}, options);
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
  const SourcePtr by_ratio = source_of({bomb}, options);
  ReadItem other;
  EXPECT_TRUE(by_ratio->stream()->next(other, context));
  EXPECT_FALSE(other.status.ok());
}

TEST(TFRecord, RecordsBeyondTheLimitAreSkippedAndSaid) {
  TFRecordOptions options;
  options.limits.max_record_bytes = 5;
  const auto got = read_source(*source_of({tfrecords_of({"12345", "123456", "1"})}, options));
  EXPECT_THAT(texts_of(got), ElementsAre("12345", "!out_of_range", "1"));
  EXPECT_THAT(got[1].error->what(), HasSubstr("max_record_bytes"));
  options.limits = {.max_members = 2};
  EXPECT_THAT(texts_of(read_source(*source_of({tfrecords_of({"a", "b", "c", "d"})}, options))),
              ElementsAre("a", "b", "!out_of_range"));
}

TEST(TFRecord, WithoutVerifyDamagedDataPasses) {
  std::string shard = tfrecords_of({"aaa", "bbb"});
  shard[13] = 'X';
  TFRecordOptions options;
  options.verify = false;
  EXPECT_THAT(texts_of(read_source(*source_of({shard}, options))), ElementsAre("aXa", "bbb"));
}

TEST(TFRecord, DamageInACacheIsReadAgain) {
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

TEST(TFRecord, RandomFaultsNeverGiveWrongBytes) {
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

TEST(TFRecord, MissingShardsAreListedAtOnce) {
  const test::TempFolder folder;
  folder.write("there", "");
  const auto error = test::thrown_by([&] {
    make_tfrecord_source(
        {folder / "there", folder / "gone-1", folder / "gone-*", folder / "gone-2"}, {});
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::not_found);
  EXPECT_THAT(error->what(), ::testing::AllOf(HasSubstr("gone-1"), HasSubstr("no file matches"),
                                              HasSubstr("gone-2")));
  test::expect_error(ErrorCode::invalid_argument, "no file", [] { make_tfrecord_source({}, {}); });
}

TEST(TFRecord, AShardThatChangesIsAnErrorNotAMixture) {
  const test::TempFolder folder;
  const std::string path = folder.write("f", tfrecords_of({"old1", "old2"}));
  const auto read_after = [&](const auto& change) {
    const SourcePtr source = make_tfrecord_source({path}, {});
    EXPECT_EQ(texts_of(read_indices(*source, {0}))[0], "old1");
    change();
    const auto got = read_indices(*source, {1});
    EXPECT_EQ(got[0].text(), "!data_loss");
    EXPECT_THAT(got[0].error->what(), HasSubstr("changed"));
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

TEST(TFRecord, TheFingerprintFollowsTheContents) {
  const auto describe = [](const std::string& shard) {
    Description description;
    source_of({shard})->describe(description);
    return description.entries();
  };
  EXPECT_EQ(describe(tfrecords_of({"a", "bc"})), describe(tfrecords_of({"a", "bc"})));
  EXPECT_NE(describe(tfrecords_of({"a", "bc"})), describe(tfrecords_of({"ab", "c"})));
}

}  // namespace
}  // namespace penstock
