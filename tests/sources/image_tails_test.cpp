// Bytes after a JPEG's end, in files of image records.
#include <filesystem>
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include <penstock/image_records.h>
#include <penstock/iterator.h>

#include "tests/sources/packed_images.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/jpeg_coefficients.h"

namespace penstock {
namespace {

using test::as_text;
using test::decoded;
using test::expect_error;
using test::make_jpeg;
using test::make_pixels;

/// JPEGs with bytes after their end, as cameras write them, and images that are stored unchanged.
class ImageTails : public test::PackedImages {
 protected:
  void SetUp() override {
    for (const auto& [key, tail] : tails_) {
      const bool progressive = key < "g";
      folder_.write("in/" + key,
                    as_text(make_jpeg(make_pixels(30, static_cast<int>(20 + key.size()), 3),
                                      {.horizontal = 2, .progressive = progressive})) +
                        tail);
    }
    folder_.write("in/unchanged/d.jpg", as_text(make_jpeg(make_pixels(16, 16, 4))) + "a tail");
    const test::Pixels gray = make_pixels(5, 7, 1);
    folder_.write(
        "in/unchanged/e.png",
        as_text(test::make_png(5, 7, gray.values, {.color_type = PNG_COLOR_TYPE_GRAY})) + "a tail");
  }

  ImagePackResult pack(bool keep) const {
    ImagePackOptions chosen = options();
    chosen.keep_tail = keep;
    return pack_images(in_, out_, chosen);
  }
  std::map<std::string, std::string> packed() const {
    std::map<std::string, std::string> all;
    Iterator iterator = image_records({out_}).iterate({});
    for (Next next = iterator.next(); !next.is_end(); next = iterator.next())
      all[std::string(next.value()["key"].bytes_at())] = next.value()["image"].bytes_at();
    return all;
  }

  const std::map<std::string, std::string> tails_{
      {"none.jpg", ""},
      {"a_byte.jpg", "x"},
      {"gain_map.jpg", std::string(as_text(make_jpeg(make_pixels(9, 12, 1))))},
      {"video.jpg", std::string("\0\0\0\030ftypmp42", 12) + test::noise(5000)},
      {"zeros.jpg", std::string(64, '\0')},
      {"markers.jpg", "\xff\xd9\xff\xd8\xff\xe1"},
      {"half_a_marker.jpg", "\xff"}};
};

TEST_P(ImageTails, AreDroppedOrKeptAndCounted) {
  std::uint64_t bytes = 0;
  for (const auto& [key, tail] : tails_) bytes += tail.size();
  std::map<std::string, std::string> plain;
  for (const bool keep : {false, true}) {
    const ImagePackResult result = pack(keep);
    EXPECT_EQ(result.records, 9);
    EXPECT_EQ(result.tails, 6);
    EXPECT_EQ(result.tail_bytes, bytes);
    EXPECT_EQ(result.zero_tails, 1);
    EXPECT_EQ(result.as_they_are.size(), 2);
    EXPECT_EQ(test::read_file(out_)[8], keep ? 2 : 1);
    EXPECT_EQ(decoded(image_records({out_})), decoded(images(in_)));
    for (const auto& [key, image] : packed()) {
      const std::string file = test::read_file(in_ + "/" + key);
      const std::string back = unpack_image(image);
      check_image_record(image);
      if (!tails_.contains(key)) {
        EXPECT_EQ(back, file);
      } else if (keep) {
        EXPECT_EQ(back, plain[key] + tails_.at(key)) << key;
        EXPECT_EQ(image[4], tails_.at(key).empty() ? 1 : 2) << key;
      } else {
        EXPECT_TRUE(back.ends_with("\xff\xd9")) << key;
        EXPECT_EQ(test::coefficients_of(test::as_bytes(back)),
                  test::coefficients_of(test::as_bytes(file)))
            << key;
        EXPECT_EQ(image[4], 1) << key;
        plain[key] = back;
      }
    }
  }
}

TEST_P(ImageTails, AreNotMixedByARunThatContinuesAnother) {
  for (const bool keep : {false, true}) {
    pack(!keep);
    const std::string other = test::read_file(out_);
    pack(keep);
    const std::string whole = test::read_file(out_);
    folder_.write("photos.pnr.partial", other);
    const ImagePackResult anew = pack(keep);
    EXPECT_EQ(anew.resumed, 0);
    EXPECT_EQ(anew.tails, 6);
    EXPECT_EQ(test::read_file(out_), whole);
    // Before the second record, and after all of them.
    for (const std::size_t size : {whole.find("PREC", whole.find("PREC") + 1), whole.size()}) {
      folder_.write("photos.pnr.partial", whole.substr(0, size));
      const ImagePackResult resumed = pack(keep);
      EXPECT_EQ(resumed.resumed, size == whole.size() ? 9 : 1);
      EXPECT_EQ(resumed.tails, size == whole.size() ? 0 : 5);
      EXPECT_EQ(test::read_file(out_), whole);
    }
  }
}

TEST_P(ImageTails, CountTowardsTheLimitOfARecord) {
  std::filesystem::remove_all(in_);
  const std::string file =
      folder_.write("in/a.jpg", as_text(make_jpeg(make_pixels(8, 8, 3))) + test::noise(5000));
  ImagePackOptions limited = options();
  limited.limits.max_record_bytes = std::filesystem::file_size(file);
  const ImagePackResult dropped = pack_images(in_, out_, limited);
  EXPECT_TRUE(dropped.as_they_are.empty());
  EXPECT_EQ(dropped.tail_bytes, 5000);
  limited.keep_tail = true;
  const ImagePackResult unchanged = pack_images(in_, out_, limited);
  EXPECT_EQ(unchanged.as_they_are, (std::map<std::string, std::uint64_t>{{"size", 1}}));
  EXPECT_EQ(unchanged.tails, 0);
  EXPECT_EQ(packed().at("a.jpg"), test::read_file(file));
}

TEST_P(ImageTails, PixelsBesideDamagedTails) {
  pack(true);
  std::string file = test::read_file(out_);
  const std::size_t at = file.find(tails_.at("video.jpg"));
  ASSERT_NE(at, file.npos);
  file[at + 20] = static_cast<char>(file[at + 20] ^ 1);
  folder_.write("photos.pnr", file);
  EXPECT_EQ(decoded(image_records({out_})), decoded(images(in_)));
  const std::string image = packed().at("video.jpg");
  for (const auto& act : {std::function<void()>([&] { unpack_image(image); }),
                          std::function<void()>([&] { check_image_record(image); })})
    expect_error(ErrorCode::data_loss, "the tail fails its CRC32C", act);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ImageTails, test::packed_kinds(), test::name_of_kind);

}  // namespace
}  // namespace penstock
