// Image records have the pixels of their files.
#include <algorithm>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/image/decoders.h"
#include "pipeline/jpeg/decoder.h"
#include "pipeline/jpeg/records/decoder.h"
#include "pipeline/jpeg/records/make.h"
#include "pipeline/jpeg/records/packed_row.h"
#include "tests/jpeg/record_cases.h"
#include "tests/support/data.h"
#include "tests/support/decoding.h"
#include "tests/support/errors.h"
#include "tests/support/image_records.h"
#include "tests/support/jpeg_coefficients.h"
#include "tests/support/jpeg_damage.h"
#include "tests/support/simd.h"

namespace penstock::jpeg {
namespace {

using test::JpegOptions;
using test::make_jpeg;
using test::make_pixels;
using Bytes = std::vector<std::byte>;

struct Case {
  const char* name;
  int height;
  int width;
  int channels;
  JpegOptions options;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> cases{
      {"a pixel", 1, 1, 3, {}},
      {"a block", 8, 8, 3, {}},
      {"one more", 9, 9, 3, {}},
      {"one less", 15, 15, 3, {.horizontal = 2, .vertical = 2}},
      {"4:4:4", 123, 177, 3, {}},
      {"4:2:2", 123, 177, 3, {.horizontal = 2}},
      {"4:4:0", 123, 177, 3, {.vertical = 2}},
      {"4:2:0", 123, 177, 3, {.horizontal = 2, .vertical = 2}},
      {"4:1:1", 50, 133, 3, {.horizontal = 4}},
      {"4:1:0", 70, 133, 3, {.horizontal = 4, .vertical = 2}},
      {"odd factors", 70, 133, 3, {.factors = {3, 1, 1, 1, 3, 1}}},
      {"gray", 77, 99, 1, {}},
      {"RGB", 77, 99, 3, {.rgb = true}},
      {"restarts", 77, 99, 3, {.horizontal = 2, .restart_interval = 3}},
      {"progressive", 123, 177, 3, {.horizontal = 2, .vertical = 2, .progressive = true}},
      {"progressive gray", 60, 41, 1, {.progressive = true}},
      {"arithmetic", 60, 41, 3, {.arithmetic = true}},
      {"coarse", 123, 177, 3, {.quality = 5}},
      {"fine", 123, 177, 3, {.quality = 100}},
      {"wide", 9, 1200, 3, {.quality = 97}},
  };
  return cases;
}

/// A TIFF structure with one entry: orientation 6.
constexpr unsigned char kExif[] = {'E',  'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0,
                                   0x12, 1,   3,   0,   1, 0, 0,   0,   6,  0, 0, 0, 0, 0, 0, 0};

TEST_P(Records, HaveThePixelsOfTheirFiles) {
  Rng rng(1, 0, 0);
  for (const Case& c : cases()) {
    const Bytes jpeg = make_jpeg(make_pixels(c.height, c.width, c.channels), c.options);
    const Bytes record = make(jpeg);
    ASSERT_FALSE(record.empty()) << c.name;
    expect_same(jpeg, record, rng, c.name);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Records, GiveBackCoefficientsAndMetadata) {
  for (const Case& c : cases()) {
    const Bytes comment(19, std::byte{'x'});
    const Bytes jpeg = test::with_segment(
        test::with_segment(make_jpeg(make_pixels(c.height, c.width, c.channels), c.options),
                           JPEG_COM, comment),
        JPEG_APP0 + 9, {});
    const Bytes back = jpeg_of(read_record(make(jpeg)));
    EXPECT_EQ(test::coefficients_of(back), test::coefficients_of(jpeg)) << c.name;
  }
}

TEST_P(Records, KeepTheOrientation) {
  Rng rng(2, 0, 0);
  const Bytes jpeg = test::with_segment(make_jpeg(make_pixels(40, 60, 3)), JPEG_APP0 + 1,
                                        std::as_bytes(std::span(kExif)));
  const Bytes record = make(jpeg);
  EXPECT_EQ(read_record(record).orientation, 6);
  expect_same(jpeg, record, rng, "turned");
}

TEST_P(Records, AreTheSameToEveryTarget) {
  test::for_each_target([&](const std::string& name) {
    Rng rng(3, 0, 0);
    for (const Case& c : cases()) {
      const Bytes jpeg = make_jpeg(make_pixels(c.height, c.width, c.channels), c.options);
      const Bytes record = make(jpeg);
      expect_same(jpeg, record, rng, name + " " + c.name);
      expect_same(jpeg, record, rng, name + " gray of " + c.name, 1);
      if (HasFatalFailure()) return;
    }
  });
}

TEST_P(Records, AreTheSameManyAtOnce) {
  Rng rng(8, 0, 0);
  std::vector<Bytes> files;
  std::vector<Bytes> records;
  for (int i = 0; i < 45; ++i) {
    files.push_back(make_jpeg(make_pixels(60 + below(rng, 90), 60 + below(rng, 200), 3),
                              {.quality = 70 + below(rng, 30),
                               .horizontal = 1 + below(rng, 2),
                               .vertical = 1 + below(rng, 2)}));
    records.push_back(make(files.back()));
  }
  // Plain ones among them, and a damaged one.
  records[7] = files[7];
  records[11][records[11].size() / 2] ^= std::byte{1};
  std::vector<image::DecodePlan> plans(files.size());
  const auto all_at_once = [&](const std::vector<Bytes>& images, bool chosen) {
    std::vector<test::Keeper> keepers;
    keepers.reserve(images.size());
    std::vector<image::DecodeJob> jobs;
    for (std::size_t i = 0; i < images.size(); ++i) {
      keepers.emplace_back([&, i](const image::ImageInfo& info) {
        if (!chosen) plans[i] = i == 11 ? test::all(info) : random_plan(info, rng, 1 << i % 4);
        return plans[i];
      });
      jobs.push_back({images[i], &keepers.back()});
    }
    image::Decoders decoders;
    decoders.decode(jobs, {});
    std::vector<test::DecodeOutcome> outcomes;
    for (std::size_t i = 0; i < images.size(); ++i)
      outcomes.push_back({jobs[i].status, keepers[i].info(), keepers[i].pixels()});
    return outcomes;
  };
  const auto plain = all_at_once(files, false);
  const auto packed = all_at_once(records, true);
  for (std::size_t i = 0; i < files.size(); ++i) {
    ASSERT_TRUE(plain[i].status.ok()) << i;
    EXPECT_EQ(packed[i].status.ok(), i != 11) << i;
    if (i != 11) {
      EXPECT_EQ(packed[i].pixels.values, plain[i].pixels.values) << i;
    }
  }
}

TEST_P(Records, OfPhotographsHaveTheirPixels) {
  const std::string folder = test::data_path("imagenet-sample");
  PENSTOCK_NEED_DATA(folder);
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  Rng rng(4, 0, 0);
  for (std::size_t i = 0; i < paths.size(); i += 12) {
    const Bytes jpeg = test::read_bytes(paths[i]);
    if (image::detect_format(jpeg) != image::Format::jpeg) continue;
    const Made made = make_record(jpeg, {.kind = GetParam()});
    if (made.record.empty()) continue;
    expect_same(jpeg, made.record, rng, paths[i].filename().string());
    EXPECT_EQ(test::coefficients_of(jpeg_of(read_record(made.record))),
              test::coefficients_of(jpeg));
    if (HasFatalFailure()) return;
  }
}

TEST_P(Records, LeaveTheRestAsItIs) {
  const MakeOptions options{.kind = GetParam()};
  EXPECT_EQ(make_record(make_jpeg(make_pixels(20, 20, 4)), options).why, "components");
  EXPECT_TRUE(make_record(make_jpeg(make_pixels(20, 20, 4)), options).record.empty());
  const test::Pixels gray = make_pixels(5, 7, 1);
  const Bytes png = test::make_png(5, 7, gray.values, {.color_type = PNG_COLOR_TYPE_GRAY});
  EXPECT_THROW(make_record(png, options), Error);
}

/// A JPEG's marker segment between its first two scans.
Bytes with_segment_between_scans(const Bytes& jpeg, int marker, std::span<const std::byte> data) {
  const auto is = [&](std::size_t at, int second) {
    return jpeg[at] == std::byte{0xff} && jpeg[at + 1] == static_cast<std::byte>(second);
  };
  std::size_t at = 0;
  while (!is(at, 0xda)) ++at;
  // The next marker that is no restart marker.
  for (++at; !is(at, 0xda) && !is(at, 0xc4); ++at) {
  }
  const std::size_t size = data.size() + 2;
  Bytes out(jpeg.begin(), jpeg.begin() + static_cast<std::ptrdiff_t>(at));
  for (const std::size_t byte :
       {std::size_t{0xff}, static_cast<std::size_t>(marker), size >> 8, size & 0xff})
    out.push_back(static_cast<std::byte>(byte));
  out.insert(out.end(), data.begin(), data.end());
  out.insert(out.end(), jpeg.begin() + static_cast<std::ptrdiff_t>(at), jpeg.end());
  return out;
}

// Metadata that lie where nobody heeds them would stand in front of the image when it is unpacked.
TEST_P(Records, LeaveFilesAsTheyAreWhoseMetadataWouldComeToMeanSomething) {
  const Bytes jpeg = make_jpeg(make_pixels(40, 60, 3), {.progressive = true});
  const Made harmless = make_record(
      with_segment_between_scans(jpeg, JPEG_COM, Bytes(9, std::byte{'x'})), {.kind = GetParam()});
  EXPECT_EQ(harmless.why, "");
  const Made turned =
      make_record(with_segment_between_scans(jpeg, JPEG_APP0 + 1, std::as_bytes(std::span(kExif))),
                  {.kind = GetParam()});
  EXPECT_EQ(turned.why, "markers");
  EXPECT_TRUE(turned.record.empty());
}

TEST_P(Records, LeaveImagesAsTheyAreWhoseCoefficientsAreMoreThanTheLimit) {
  const Bytes jpeg = make_jpeg(make_pixels(400, 400, 3));
  const Limits limits{.max_codec_bytes = 512 << 10};
  EXPECT_EQ(make_record(jpeg, {.kind = GetParam(), .limits = limits}).why, "memory");
}

TEST_P(Records, AreReadOnlyWhereTheRegionIs) {
  const Bytes jpeg = make_jpeg(make_pixels(96, 96, 3));
  const Bytes record = make(jpeg);
  const Record whole = read_record(record);
  // The last row of blocks is damaged: only those notice who look.
  Bytes damaged = record;
  const auto at = static_cast<std::size_t>(whole.payload.data() - record.data());
  damaged[at + whole.part(whole.part_count - 1).offset + 3] ^= std::byte{1};
  const auto decoder = make_record_decoder();
  const auto plan = [](int top, int height) {
    return [=](const image::ImageInfo& info) {
      return image::DecodePlan{.region = {top, 0, height, info.size.width}};
    };
  };
  EXPECT_TRUE(test::decode(*decoder, damaged, plan(0, 64)).status.ok());
  const test::DecodeOutcome below_it = test::decode(*decoder, damaged, plan(64, 32));
  ASSERT_FALSE(below_it.status.ok());
  EXPECT_THAT(below_it.status.error().what(), ::testing::HasSubstr("CRC32C"));
}

TEST_P(Records, AreLeftToLibjpegTurboIfItIsChosen) {
  const Bytes jpeg = make_jpeg(make_pixels(60, 60, 3));
  const Bytes record = make(jpeg);
  Rng rng(6, 0, 0);
  choose(Backend::libjpeg_turbo);
  const auto before = record_counts();
  expect_same(jpeg, record, rng, "by the library");
  EXPECT_EQ(record_counts(), before);
  choose(Backend::automatic);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Records,
                         ::testing::Values(RecordKind::coefficients, RecordKind::indexed),
                         [](const auto& kind) { return std::string(name_of(kind.param)); });

/// Coefficients of any size come back, the largest that int16 holds included.
TEST(PackedRows, HoldAnyCoefficients) {
  Rng rng(7, 0, 0);
  for (int i = 0; i < 400; ++i) {
    const int count = 1 + below(rng, 40);
    std::vector<std::int16_t> blocks(static_cast<std::size_t>(count) * kBlockSize);
    const int density = below(rng, 101);
    const int range = 1 << below(rng, 16);
    for (std::int16_t& value : blocks)
      if (below(rng, 100) < density)
        value = static_cast<std::int16_t>(below(rng, 2 * range) - range);
    Bytes packed;
    pack_row(blocks, packed);
    const std::size_t size = packed.size();
    packed.resize(size + kRecordSlack);
    const PackedRow row = open_row(std::span(packed).first(size), count);
    ASSERT_TRUE(row.valid);
    std::vector<std::int16_t> back(blocks.size());
    ASSERT_TRUE(unpack_row(row, back));
    ASSERT_EQ(back, blocks);
    EXPECT_FALSE(open_row(std::span(packed).first(11), count).valid);
  }
}

}  // namespace
}  // namespace penstock::jpeg
