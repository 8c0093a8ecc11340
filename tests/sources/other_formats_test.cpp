// What each source says of a file in a format that none reads.
#include <penstock/sources.h>

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/io/memory.h"
#include "pipeline/sources/image_records.h"
#include "tests/support/deflate.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/records.h"

namespace penstock {
namespace {

using namespace std::string_literals;
using test::noise;

struct Other {
  std::string name;
  std::string bytes;
};

std::vector<Other> others() {
  const std::string hundred = [] {
    std::string rows;
    for (char i = 0; i < 4; ++i) rows += std::string{i, 47} + noise(3072);
    return rows;
  }();
  return {
      {"an .npz archive", "PK\3\4\x14"s + std::string(21, '\0') + "\5\0\0\0x.npy"s + noise(300)},
      {"a zip archive", "PK\3\4\x14"s + std::string(21, '\0') + "\5\0\0\0x.jpg"s + noise(300)},
      {"a Python pickle", "\x80\2}q\1(U\x0b"s + noise(3000)},
      {"a Parquet file", "PAR1\x15\4\n"s + noise(2000)},
      {"an HDF5 file", "\x89HDF\r\n\x1a\n" + noise(2000)},
      {"an LMDB database", std::string(16, '\0') + "\xde\xc0\xef\xbe" + noise(2000)},
      {"a RecordIO file", "\x0a\x23\xd7\xce" + noise(2000)},
      {"a WebP image", "RIFF\x24\0\0\0WEBPVP8 "s + noise(600)},
      {"CIFAR-100", hundred}};
}

class OtherFormats : public testing::Test {
 protected:
  /// Checks that a source over each of these files is refused.
  void expect_refused(const std::function<SourcePtr(const Paths&)>& make) const {
    for (const Other& other : others()) {
      files_->add("x", other.bytes);
      test::expect_error(ErrorCode::data_loss, "this is " + other.name, [&] { make({"x"}); });
      const auto error = test::thrown_by([&] { make({"x"}); });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->where().shard, "x");
    }
  }
  template <typename Options>
  Options options() const {
    Options options;
    options.files = files_;
    return options;
  }

  const std::shared_ptr<MemoryFileSystem> files_ = std::make_shared<MemoryFileSystem>();
};

TEST_F(OtherFormats, AreRefusedByName) {
  expect_refused(
      [&](const Paths& paths) { return make_npy_source(paths, options<FileOptions>()); });
  expect_refused(
      [&](const Paths& paths) { return make_idx_source(paths[0], "", options<FileOptions>()); });
  expect_refused(
      [&](const Paths& paths) { return make_cifar10_source(paths, options<FileOptions>()); });
  expect_refused([&](const Paths& paths) { return make_csv_source(paths, options<CsvOptions>()); });
  expect_refused(
      [&](const Paths& paths) { return make_text_lines_source(paths, options<FileOptions>()); });
  expect_refused(
      [&](const Paths& paths) { return make_image_records_source(paths, options<FileOptions>()); });
}

// A run that skips errors continues with the next shard.
TEST_F(OtherFormats, AreOneErrorOfShards) {
  const auto expect_one_error = [&](const SourcePtr& source, const std::string& name) {
    const auto got = test::read_source(*source);
    ASSERT_EQ(got.size(), 1U) << name;
    ASSERT_TRUE(got[0].error) << name;
    EXPECT_EQ(got[0].error->code(), ErrorCode::data_loss);
    EXPECT_THAT(got[0].error->cause(), testing::HasSubstr("this is " + name));
  };
  for (const Other& other : others()) {
    files_->add("x", other.bytes);
    expect_one_error(make_tar_source({"x"}, options<TarOptions>()), other.name);
    expect_one_error(make_tfrecord_source({"x"}, options<TFRecordOptions>()), other.name);
  }
  files_->add("x", test::gzip(noise(9000)));
  expect_one_error(make_tar_source({"x"}, options<TarOptions>()), "compressed by gzip");
  auto plain = options<TFRecordOptions>();
  plain.compression = Compression::none;
  expect_one_error(make_tfrecord_source({"x"}, plain), "compressed by gzip");
}

TEST_F(OtherFormats, GzipWithoutSupport) {
  files_->add("x", test::gzip("a,b\n1,2\n" + noise(9000)));
  const auto expect = [](const auto& make) {
    test::expect_error(ErrorCode::data_loss, "compressed by gzip: decompress it first", make);
  };
  expect([&] { make_npy_source({"x"}, options<FileOptions>()); });
  expect([&] { make_cifar10_source({"x"}, options<FileOptions>()); });
  expect([&] { make_csv_source({"x"}, options<CsvOptions>()); });
  expect([&] { make_text_lines_source({"x"}, options<FileOptions>()); });
  expect([&] { make_image_records_source({"x"}, options<FileOptions>()); });
}

TEST_F(OtherFormats, AreNamedByStreamsOfRecords) {
  for (const Other& other : others()) {
    files_->add("packed", test::gzip(other.bytes));
    files_->add("sound", test::gzip(test::tfrecord_of("record")));
    const auto got =
        test::read_source(*make_tfrecord_source({"packed", "sound"}, options<TFRecordOptions>()));
    ASSERT_EQ(got.size(), 2U) << other.name;
    ASSERT_TRUE(got[0].error);
    // How many bytes there will be is not known before, which CIFAR-100 is told by.
    if (other.name != "CIFAR-100") {
      EXPECT_THAT(got[0].error->what(), testing::HasSubstr(other.name));
    }
    EXPECT_EQ(got[1].text(), "record");
  }
}

TEST_F(OtherFormats, FolderWithoutImages) {
  for (const Other& other : others()) {
    const test::TempFolder folder;
    folder.write("below/data.bin", other.bytes);
    folder.write("index.json", "{}");
    test::expect_error(ErrorCode::not_found, "there is " + other.name,
                       [&] { make_images_source(folder.path(), {}); });
  }
}

TEST_F(OtherFormats, Text) {
  for (const std::size_t size : {10, 600}) {
    files_->add("x", std::string(size, 't'));
    const auto archive = test::read_source(*make_tar_source({"x"}, options<TarOptions>()));
    ASSERT_EQ(archive.size(), 1U);
    EXPECT_THAT(archive[0].error->cause(), testing::StartsWith("not a tar archive"));
    for (const Compression compression : {Compression::none, Compression::gzip}) {
      auto of_records = options<TFRecordOptions>();
      of_records.compression = compression;
      const std::string text(size, 't');
      files_->add("y", compression == Compression::none ? text : test::gzip(text));
      const auto records = test::read_source(*make_tfrecord_source({"y"}, of_records));
      ASSERT_EQ(records.size(), 1U);
      EXPECT_THAT(records[0].error->cause(), testing::StartsWith("not a TFRecord file"));
    }
    test::expect_error(ErrorCode::data_loss, "no file of image records",
                       [&] { make_image_records_source({"x"}, options<FileOptions>()); });
  }
}

// Files that end early, and those that are all damage, are still what they were.
TEST_F(OtherFormats, DamagedFiles) {
  files_->add("x", "\3" + noise(3000));
  const auto cut = test::read_source(*make_cifar10_source({"x"}, options<FileOptions>()));
  ASSERT_EQ(cut.size(), 1U);
  EXPECT_THAT(cut[0].error->cause(), testing::HasSubstr("truncated at byte 3001"));
  files_->add("x", noise(5000, 9));
  EXPECT_EQ(test::read_source(*make_tar_source({"x"}, options<TarOptions>())).size(), 1U);
  EXPECT_EQ(test::read_source(*make_tfrecord_source({"x"}, options<TFRecordOptions>())).size(), 1U);
  test::expect_error(ErrorCode::data_loss, "not a .npy file",
                     [&] { make_npy_source({"x"}, options<FileOptions>()); });
}

}  // namespace
}  // namespace penstock
