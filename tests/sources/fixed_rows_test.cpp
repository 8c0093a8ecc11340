// The sources of records of one size: fixed_records and cifar10.
#include <penstock/sources.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/io/memory.h"
#include "pipeline/sources/fixed_rows.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/records.h"

namespace penstock {
namespace {

using test::expect_error;
using test::noise;
using test::read_indices;
using test::read_source;
using test::ReadOutcome;
using test::texts_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<MemoryFileSystem> files_with(
    const std::vector<std::pair<std::string, std::string>>& contents) {
  auto files = std::make_shared<MemoryFileSystem>();
  for (const auto& [name, bytes] : contents) files->add(name, bytes);
  return files;
}

FixedRecordOptions records_in(FileSystemPtr files, std::uint64_t header = 0,
                              std::uint64_t footer = 0) {
  FixedRecordOptions options;
  options.files = std::move(files);
  options.header_bytes = header;
  options.footer_bytes = footer;
  return options;
}

TEST(FixedRecords, AcrossFilesWithHeadersAndFooters) {
  const auto files = files_with({{"a", "HHaaabbbF"}, {"b", "HHF"}, {"c", "HHcccF"}});
  const SourcePtr source = make_fixed_records_source({"a", "b", "c"}, 3, records_in(files, 2, 1));
  EXPECT_EQ(source->spec().to_string(), "{record: u8 [3]}");
  EXPECT_THAT(texts_of(read_source(*source)), ElementsAre("aaa", "bbb", "ccc"));
  EXPECT_THAT(texts_of(read_indices(*source, {2, 0, 2, 1})),
              ElementsAre("ccc", "aaa", "ccc", "bbb"));
  EXPECT_EQ(source->locate(1).to_string(), "a @5 record 1");
  EXPECT_EQ(source->locate(2).to_string(), "c @2 record 2");
  EXPECT_EQ(source->record_bytes(0), 3U);
}

TEST(FixedRecords, TruncatedAtEveryLength) {
  const std::string whole = "H" + noise(5 * 4);
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    const auto files = files_with({{"cut", whole.substr(0, cut)}, {"next", "Hnext"}});
    if (cut == 0) {
      expect_error(ErrorCode::data_loss, "cut", [&] {
        make_fixed_records_source({"cut", "next"}, 4, records_in(files, 1));
      });
      continue;
    }
    const auto outcomes =
        read_source(*make_fixed_records_source({"cut", "next"}, 4, records_in(files, 1)));
    const std::size_t records = (cut - 1) / 4;
    const bool damaged = (cut - 1) % 4 != 0;
    ASSERT_EQ(outcomes.size(), records + (damaged ? 2 : 1)) << cut;
    for (std::size_t i = 0; i < records; ++i) {
      EXPECT_EQ(outcomes[i].text(), whole.substr(1 + 4 * i, 4));
    }
    if (damaged) {
      EXPECT_EQ(outcomes[records].error->code(), ErrorCode::data_loss);
      EXPECT_THAT(outcomes[records].error->cause(),
                  HasSubstr("truncated at byte " + std::to_string(cut)));
    }
    EXPECT_EQ(outcomes.back().text(), "next");
  }
}

TEST(FixedRecords, WritesIntoTheRow) {
  const auto files = files_with({{"a", "abcdefgh"}});
  const SourcePtr source = make_fixed_records_source({"a"}, 2, records_in(files));
  std::string slot(8, '.');
  std::byte* const bases[] = {reinterpret_cast<std::byte*>(slot.data())};
  const std::size_t strides[] = {2};
  std::vector<ReadItem> items(4);
  for (std::size_t i = 0; i < 4; ++i) {
    items[i].index = 3 - i;
    items[i].row = Row(bases, strides, i);
  }
  test::HeapContext context;
  source->read(items, context);
  EXPECT_EQ(slot, "ghefcdab");
  EXPECT_EQ(items[1].element[0].data(), bases[0] + 2);
}

TEST(FixedRecords, Rejects) {
  const auto files = files_with({{"a", "abc"}});
  expect_error(ErrorCode::invalid_argument, "0 bytes",
               [&] { make_fixed_records_source({"a"}, 0, records_in(files)); });
  expect_error(ErrorCode::data_loss, "header of 2 and footer of 2",
               [&] { make_fixed_records_source({"a"}, 1, records_in(files, 2, 2)); });
  expect_error(ErrorCode::data_loss, "header", [&] {
    make_fixed_records_source({"a"}, 1, records_in(files, UINT64_MAX, UINT64_MAX));
  });
  expect_error(ErrorCode::out_of_range, "limit",
               [&] { make_fixed_records_source({"a"}, 1ULL << 40, records_in(files)); });
  const auto missing = test::thrown_by([&] {
    make_fixed_records_source({"x", "a", "y*"}, 1, records_in(files));
  });
  ASSERT_TRUE(missing);
  EXPECT_THAT(missing->what(), testing::AllOf(HasSubstr("x"), HasSubstr("y*")));
}

TEST(FixedRows, HostilePromises) {
  const auto files = files_with({{"a", "abcdefgh"}});
  const auto shards = std::make_shared<const Shards>(files, Paths{"a"});
  FixedRows rows(shards, 8, 100);
  expect_error(ErrorCode::out_of_range, "18446744073709551615 records",
               [&] { rows.add(0, 8, UINT64_MAX, 10); });
  rows.add(0, 8, UINT64_MAX / 8, 10);
  EXPECT_EQ(rows.size(), 2U);  // one, and the error that the rest is missing
  FixedRows empty(shards, 0, 100);
  expect_error(ErrorCode::out_of_range, "11 records", [&] { empty.add(0, 8, 11, 10); });
  empty.add(0, 8, 10, 10);
  EXPECT_EQ(empty.size(), 10U);
}

std::string cifar_record(int label, std::uint64_t seed) {
  return std::string(1, static_cast<char>(label)) + noise(3072, seed);
}

TEST(Cifar10, Planes) {
  const std::string first = cifar_record(3, 1);
  const std::string second = cifar_record(9, 2);
  FileOptions options;
  options.files = files_with({{"data_batch_1.bin", first}, {"data_batch_2.bin", second}});
  const SourcePtr source = make_cifar10_source({"data_batch_*.bin"}, options);
  EXPECT_EQ(source->spec().to_string(), "{image: u8 [32,32,3], label: i64 []}");
  EXPECT_EQ(source->class_names().size(), 10U);
  const std::vector<ReadOutcome> outcomes = read_source(*source);
  ASSERT_EQ(outcomes.size(), 2U);
  EXPECT_EQ(outcomes[0].values[1], "3");
  EXPECT_EQ(outcomes[1].values[1], "9");
  for (std::size_t y = 0; y < 32; ++y) {
    for (std::size_t x = 0; x < 32; ++x) {
      for (std::size_t c = 0; c < 3; ++c) {
        ASSERT_EQ(outcomes[1].values[0][(y * 32 + x) * 3 + c], second[1 + c * 1024 + y * 32 + x]);
      }
    }
  }
  EXPECT_EQ(source->locate(1).to_string(), "data_batch_2.bin @0 record 1");
}

TEST(Cifar10, BadLabelsAndTruncation) {
  const std::string bytes = cifar_record(0, 1) + cifar_record(10, 2) + cifar_record(1, 3);
  for (const std::size_t cut : {0U, 1U, 3072U, 3073U, 3074U, 6146U, 9218U, 9219U}) {
    FileOptions options;
    options.files = files_with({{"a", bytes.substr(0, cut)}});
    const std::vector<ReadOutcome> outcomes = read_source(*make_cifar10_source({"a"}, options));
    ASSERT_EQ(outcomes.size(), (cut + 3072) / 3073) << cut;
    if (cut % 3073 != 0) {
      EXPECT_THAT(outcomes.back().error->cause(), HasSubstr("truncated at byte"));
    }
    if (cut >= 6146) {
      EXPECT_EQ(outcomes[1].error->code(), ErrorCode::data_loss);
      EXPECT_THAT(outcomes[1].error->cause(), HasSubstr("label 10"));
    }
  }
}

TEST(Cifar10, WritesIntoTheRow) {
  FileOptions options;
  options.files = files_with({{"a", cifar_record(4, 1)}});
  const SourcePtr source = make_cifar10_source({"a"}, options);
  std::vector<std::byte> image(3072);
  std::int64_t label = -1;
  std::byte* const bases[] = {image.data(), reinterpret_cast<std::byte*>(&label)};
  const std::size_t strides[] = {3072, 8};
  std::vector<ReadItem> items(1);
  items[0].row = Row(bases, strides, 0);
  test::HeapContext context;
  source->read(items, context);
  EXPECT_EQ(items[0].element[0].data(), image.data());
  EXPECT_EQ(std::string(reinterpret_cast<char*>(image.data()), 3072),
            read_source(*source)[0].text());
}

}  // namespace
}  // namespace penstock
