#include <penstock/image_records.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/image.h>
#include <penstock/internal/crc32c.h>
#include <penstock/iterator.h>

#include "tests/sources/packed_images.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/image_records.h"
#include "tests/support/jpeg_coefficients.h"

namespace penstock {
namespace {

using test::as_text;
using test::decoded;
using test::expect_error;
using test::make_jpeg;
using test::make_pixels;
using test::name_of_kind;
using test::packed_kinds;
using ::testing::HasSubstr;

class ImageRecords : public test::PackedImages {
 protected:
  void SetUp() override {
    folder_.write("in/cat/a.jpg", as_text(make_jpeg(make_pixels(40, 30, 3), {.horizontal = 2})));
    folder_.write("in/cat/b.jpg", as_text(make_jpeg(make_pixels(33, 20, 1))));
    folder_.write("in/dog/c.jpg",
                  as_text(make_jpeg(make_pixels(20, 52, 3), {.progressive = true})));
    folder_.write("in/dog/d.jpg", as_text(make_jpeg(make_pixels(16, 16, 4))));
    const test::Pixels gray = make_pixels(5, 7, 1);
    folder_.write("in/dog/e.png",
                  as_text(test::make_png(5, 7, gray.values, {.color_type = PNG_COLOR_TYPE_GRAY})));
  }

  ImagePackResult pack() const { return pack_images(in_, out_, options()); }
};

TEST_P(ImageRecords, AreTheImagesOfTheFolder) {
  const ImagePackResult result = pack();
  EXPECT_EQ(result.records, 5);
  EXPECT_EQ(result.resumed, 0);
  EXPECT_EQ(result.as_they_are,
            (std::map<std::string, std::uint64_t>{{"components", 1}, {"png", 1}}));
  EXPECT_EQ(result.bytes_out, std::filesystem::file_size(out_));
  EXPECT_FALSE(std::filesystem::exists(out_ + ".partial"));
  const Dataset records = image_records({out_});
  EXPECT_EQ(records.cardinality(), 5);
  EXPECT_EQ(class_names(records), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(decoded(records), decoded(images(in_)));
  EXPECT_EQ(decoded(records.shuffle()).size(), 5);
}

TEST_P(ImageRecords, CanBeUnpacked) {
  pack();
  Iterator iterator = image_records({out_}).iterate({});
  for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
    const std::string key(next.value()["key"].bytes_at());
    const std::string back = unpack_image(next.value()["image"].bytes_at());
    const std::string file = test::read_file(in_ + "/" + key);
    if (key == "dog/d.jpg" || key == "dog/e.png") {
      EXPECT_EQ(back, file);
    } else {
      EXPECT_EQ(test::coefficients_of(test::as_bytes(back)),
                test::coefficients_of(test::as_bytes(file)))
          << key;
      expect_error(ErrorCode::out_of_range, "max_pixels",
                   [&] { unpack_image(next.value()["image"].bytes_at(), {.max_pixels = 100}); });
    }
  }
}

TEST_P(ImageRecords, GoOnWhereAKilledRunStopped) {
  pack();
  const std::string whole = test::read_file(out_);
  std::uint64_t last = 0;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{10}, std::size_t{64}, std::size_t{100}, whole.size() / 4,
        whole.size() / 2, whole.size() - 100, whole.size()}) {
    std::filesystem::remove(out_);
    folder_.write("photos.pnr.partial", whole.substr(0, size));
    const ImagePackResult result = pack();
    EXPECT_GE(result.resumed, last);
    last = result.resumed;
    EXPECT_EQ(result.records, 5);
    EXPECT_EQ(test::read_file(out_), whole) << size;
  }
  EXPECT_EQ(last, 5);
}

TEST_P(ImageRecords, AreMadeAnewBehindWhatChanged) {
  pack();
  const std::string whole = test::read_file(out_);
  // A bit of the third record, of which nothing else knows.
  std::string damaged = whole;
  const std::size_t third = whole.find("PREC", whole.find("PREC", whole.find("PREC") + 1) + 1);
  damaged[third + 300] = static_cast<char>(damaged[third + 300] ^ 1);
  folder_.write("photos.pnr.partial", damaged);
  EXPECT_EQ(pack().resumed, 2);
  EXPECT_EQ(test::read_file(out_), whole);
  // Another file in the place of the second, and another kind.
  folder_.write("photos.pnr.partial", whole);
  folder_.write("in/cat/b.jpg", as_text(make_jpeg(make_pixels(34, 20, 1))));
  EXPECT_EQ(pack().resumed, 1);
  EXPECT_EQ(decoded(image_records({out_})), decoded(images(in_)));
}

TEST_P(ImageRecords, StopWhenToldAndGoOn) {
  pack();
  const std::string whole = test::read_file(out_);
  std::filesystem::remove(out_);
  ImagePackOptions stopping = options();
  stopping.progress = [](std::uint64_t, std::uint64_t all) {
    EXPECT_EQ(all, 5);
    return false;
  };
  EXPECT_TRUE(pack_images(in_, out_, stopping).stopped);
  EXPECT_FALSE(std::filesystem::exists(out_));
  EXPECT_TRUE(std::filesystem::exists(out_ + ".partial"));
  EXPECT_FALSE(pack().stopped);
  EXPECT_EQ(test::read_file(out_), whole);
}

TEST_P(ImageRecords, FailOrLeaveOutBadFilesByName) {
  const std::string bad =
      folder_.write("in/cat/aa.jpg", as_text(make_jpeg(make_pixels(40, 30, 3))).substr(0, 300));
  expect_error(ErrorCode::data_loss, bad, [&] { pack(); });
  EXPECT_FALSE(std::filesystem::exists(out_));
  ImagePackOptions skipping = options();
  skipping.skip_bad = true;
  std::vector<std::string> left_out;
  skipping.bad = [&](const Error& error) { left_out.push_back(error.where().shard); };
  const ImagePackResult result = pack_images(in_, out_, skipping);
  EXPECT_EQ(left_out, std::vector<std::string>{bad});
  EXPECT_EQ(result.left_out, 1);
  EXPECT_EQ(result.records, 5);
  std::filesystem::remove(bad);
  EXPECT_EQ(decoded(image_records({out_})), decoded(images(in_)));
}

TEST_P(ImageRecords, OfSeveralFilesMustCountTheSameClasses) {
  pack();
  const std::string second = folder_ / "second.pnr";
  pack_images(in_, second, options());
  EXPECT_EQ(image_records({out_, second}).cardinality(), 10);
  const std::string third = folder_ / "third.pnr";
  pack_images(in_ + "/cat", third, options());
  expect_error(ErrorCode::invalid_argument, third, [&] { image_records({out_, third}); });
}

/// What a file is: "" if all of it decodes, else the first error.
std::string verdict(const std::string& contents) {
  FileOptions options;
  options.files = make_memory_file_system({{"file", contents}});
  try {
    Iterator iterator =
        image_records({"file"}, options).map(decode_image("image")).iterate({.threads = 1});
    for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
      if (next.has_value()) continue;
      EXPECT_EQ(next.error().code(), ErrorCode::data_loss) << next.error().what();
      EXPECT_GE(next.error().where().offset, 64) << next.error().what();
      return next.error().what();
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::data_loss) << error.what();
    EXPECT_EQ(error.where().shard, "file");
    return error.what();
  }
  return "";
}

TEST_P(ImageRecords, AreRefusedWhenCutOrDamaged) {
  std::filesystem::remove_all(in_ + "/dog");
  pack();
  const std::string whole = test::read_file(out_);
  EXPECT_EQ(verdict(whole), "");
  for (std::size_t size = 0; size < whole.size(); size += size < 200 ? 1 : 13)
    ASSERT_NE(verdict(whole.substr(0, size)), "") << size;
  for (std::size_t at = 0; at < whole.size(); at += at < 400 || at + 200 > whole.size() ? 1 : 17) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    ASSERT_NE(verdict(damaged), "") << at;
  }
}

// An index that claims the whole of a large file is not read to find that out.
TEST_P(ImageRecords, WithAHugeIndexAreRefusedAtOnce) {
  pack();
  std::string file = test::read_file(out_);
  const std::string footer = file.substr(file.size() - 32);
  const std::uint64_t size = std::uint64_t{1} << 42;
  std::filesystem::resize_file(out_, size);
  const auto write_at = [&](std::uint64_t at, const std::string& bytes) {
    std::fstream out(out_, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(static_cast<std::streamoff>(at));
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  };
  const auto claim = [&](std::uint64_t records, std::uint64_t classes) {
    const std::uint64_t head[] = {records, classes, 0, 0};
    write_at(64, std::string(reinterpret_cast<const char*>(head), sizeof(head)));
    std::string claimed = footer;
    const std::uint64_t place[] = {64, size - 64 - 32};
    std::memcpy(claimed.data(), place, sizeof(place));
    const std::uint32_t crc = crc32c(std::as_bytes(std::span(claimed).first(20)));
    std::memcpy(claimed.data() + 20, &crc, sizeof(crc));
    write_at(size - 32, claimed);
  };
  for (const auto& [records, classes, cause] :
       {std::tuple<std::uint64_t, std::uint64_t, const char*>{size / 16 - 8, 0, "more records"},
        {UINT64_MAX, 0, "more records"},
        {3, 5, "class names"},
        {0, size / 8, "class names"},
        {0, UINT64_MAX, "class names"}}) {
    claim(records, classes);
    expect_error(ErrorCode::data_loss, cause, [&] { image_records({out_}); });
  }
}

TEST_P(ImageRecords, SayWhatTheyAre) {
  pack();
  const std::string text = image_records({out_}).explain({});
  EXPECT_THAT(text, HasSubstr(GetParam() == ImageRecordKind::coefficients ? "coefficients=3"
                                                                          : "indexed=3"));
  EXPECT_THAT(text, HasSubstr("as_they_are=2"));
}

TEST_P(ImageRecords, OfAnUnknownVersionAreRefused) {
  pack();
  std::string file = test::read_file(out_);
  file[8] = 3;
  test::sign_records(file);
  EXPECT_THAT(verdict(file), HasSubstr("image records: version 3 is not supported"));
}

INSTANTIATE_TEST_SUITE_P(Kinds, ImageRecords, packed_kinds(), name_of_kind);

}  // namespace
}  // namespace penstock
