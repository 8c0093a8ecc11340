// TFRecord files, plain and compressed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/sources.h>

#include "tests/sources/tfrecord_shards.h"
#include "tests/support/deflate.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/records.h"

namespace penstock {
namespace tfrecord_test {

using test::deflated;
using test::read_indices;
using test::read_source;
using test::some_records;
using test::texts_of;
using test::tfrecord_of;
using test::tfrecord_source;
using test::tfrecords_of;
using test::Wrapper;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

TEST(TFRecord, ReadsTensorFlowsBytes) {
  const std::string golden(
      "\x05\0\0\0\0\0\0\0\xea\xb2\x04\x3e"
      "hello"
      "\xbb\x1f\x1c\x19",
      21);
  EXPECT_EQ(tfrecord_of("hello"), golden);
  const SourcePtr source = tfrecord_source({golden});
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

TEST(TFRecord, MixedShardsAndMembers) {
  const std::string a = tfrecord_of("a"), b = tfrecord_of("b"), c = tfrecord_of("c");
  const std::string members = deflated(a, Wrapper::gzip) + deflated(b, Wrapper::gzip);
  const SourcePtr source =
      tfrecord_source({c, members + std::string(100, '\0'), deflated(c, Wrapper::zlib), ""});
  EXPECT_FALSE(source->size());
  EXPECT_THAT(texts_of(read_source(*source)), ElementsAre("c", "a", "b", "c"));
}

TEST(TFRecord, LocatesRecords) {
  const SourcePtr source = tfrecord_source({tfrecords_of({"abc", "de"}), tfrecord_of("f")});
  EXPECT_EQ(source->locate(1).shard, "0");
  EXPECT_EQ(source->locate(1).offset, 19);
  EXPECT_EQ(source->locate(2).shard, "1");
  EXPECT_EQ(source->locate(2).offset, 0);
  EXPECT_EQ(source->locate(2).index, 2);
  EXPECT_EQ(source->record_bytes(0), 19u);
}

TEST(TFRecord, BufferOfNeighbours) {
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

TEST(TFRecord, LifetimeOfTensors) {
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

TEST(TFRecord, RecordsBeyondTheLimit) {
  TFRecordOptions options;
  options.limits.max_record_bytes = 5;
  const auto got = read_source(*tfrecord_source({tfrecords_of({"12345", "123456", "1"})}, options));
  EXPECT_THAT(texts_of(got), ElementsAre("12345", "!out_of_range", "1"));
  EXPECT_THAT(got[1].error->what(), HasSubstr("max_record_bytes"));
  options.limits = {.max_members = 2};
  EXPECT_THAT(
      texts_of(read_source(*tfrecord_source({tfrecords_of({"a", "b", "c", "d"})}, options))),
      ElementsAre("a", "b", "!out_of_range"));
}

TEST(TFRecord, DamagedDataWithoutVerify) {
  std::string shard = tfrecords_of({"aaa", "bbb"});
  shard[13] = 'X';
  TFRecordOptions options;
  options.verify = false;
  EXPECT_THAT(texts_of(read_source(*tfrecord_source({shard}, options))), ElementsAre("aXa", "bbb"));
}

TEST(TFRecord, MissingShards) {
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

TEST(TFRecord, FingerprintOfContents) {
  const auto describe = [](const std::string& shard) {
    Description description;
    tfrecord_source({shard})->describe(description);
    return description.entries();
  };
  EXPECT_EQ(describe(tfrecords_of({"a", "bc"})), describe(tfrecords_of({"a", "bc"})));
  EXPECT_NE(describe(tfrecords_of({"a", "bc"})), describe(tfrecords_of({"ab", "c"})));
}

}  // namespace tfrecord_test
}  // namespace penstock
