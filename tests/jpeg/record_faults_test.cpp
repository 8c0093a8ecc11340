// Image records of bad files, and bad image records.
#include <algorithm>
#include <cstring>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/jpeg/decoder.h"
#include "pipeline/jpeg/records/decoder.h"
#include "pipeline/jpeg/records/make.h"
#include "tests/jpeg/record_cases.h"
#include "tests/support/decoding.h"
#include "tests/support/errors.h"
#include "tests/support/image_records.h"
#include "tests/support/jpeg_coefficients.h"
#include "tests/support/jpeg_damage.h"
#include "tests/support/sanitizer.h"
#include "tests/support/simd.h"

namespace penstock::jpeg {
namespace record_faults_test {

using test::make_jpeg;
using test::make_pixels;
using Bytes = std::vector<std::byte>;

class RecordFaults : public Records {};

TEST_P(RecordFaults, RefuseBadFiles) {
  const MakeOptions options{.kind = GetParam()};
  const Bytes jpeg = make_jpeg(make_pixels(60, 60, 3));
  const Bytes cut(jpeg.begin(), jpeg.begin() + static_cast<std::ptrdiff_t>(jpeg.size() / 2));
  EXPECT_THROW(make_record(cut, options), Error);
  EXPECT_THROW(make_record({}, options), Error);
  EXPECT_THROW(make_record(std::as_bytes(std::span("no image")), options), Error);
  EXPECT_THROW(make_record(jpeg, {.kind = GetParam(), .limits = {.max_pixels = 3599}}), Error);
  // It does not matter to the next one.
  EXPECT_FALSE(make_record(jpeg, options).record.empty());
}

TEST_P(RecordFaults, TruncationAtEveryLength) {
  const Bytes record = make(make_jpeg(make_pixels(30, 40, 3), {.horizontal = 2, .vertical = 2}));
  const auto decoder = make_record_decoder();
  for (std::size_t size = 0; size < record.size(); ++size) {
    // Memory of its own, so that a read beyond it shows.
    const Bytes cut(record.begin(), record.begin() + static_cast<std::ptrdiff_t>(size));
    const test::DecodeOutcome outcome = test::decode(*decoder, cut, test::all);
    ASSERT_FALSE(outcome.status.ok()) << size;
    ASSERT_EQ(outcome.status.error().code(), ErrorCode::data_loss);
  }
}

// By every back end, and when they are unpacked.
TEST_P(RecordFaults, WithAFlippedBitAreRefused) {
  const Bytes record = make(make_jpeg(make_pixels(30, 40, 3), {.horizontal = 2, .vertical = 2}));
  const auto decoder = make_record_decoder();
  for (std::size_t bit = 0; bit < 8 * record.size(); bit += 3) {
    Bytes flipped = record;
    flipped[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    for (const Backend backend : {Backend::automatic, Backend::libjpeg_turbo}) {
      choose(backend);
      const test::DecodeOutcome outcome = test::decode(*decoder, flipped, test::all);
      choose(Backend::automatic);
      ASSERT_FALSE(outcome.status.ok()) << "byte " << bit / 8;
      ASSERT_EQ(outcome.status.error().code(), ErrorCode::data_loss);
    }
    test::expect_error(ErrorCode::data_loss, "image record",
                       [&] { jpeg_of(read_record(flipped)); });
  }
}

// What our own decoder does not know goes to the library, with all of the file.
TEST(IndexedRecords, ChecksumsForOtherDecoders) {
  const Bytes jpeg = make_jpeg(make_pixels(70, 133, 3), {.rgb = true});
  const Made made = make_record(jpeg, {.kind = RecordKind::indexed});
  ASSERT_EQ(made.why, "");
  const DecodeOptions options{.channels = 1};  // of RGB, which is not ours
  const auto before = counts();
  const auto decoder = make_record_decoder();
  EXPECT_TRUE(test::decode(*decoder, made.record, test::all, options).status.ok());
  EXPECT_GT(counts().foreign, before.foreign);
  const Record record = read_record(made.record);
  for (std::size_t i = 0; i < record.part_count; ++i) {
    Bytes damaged = made.record;
    const auto at = static_cast<std::size_t>(record.payload.data() - made.record.data());
    damaged[at + record.part(i).offset + 2] ^= std::byte{1};
    const test::DecodeOutcome outcome = test::decode(*decoder, damaged, test::all, options);
    ASSERT_FALSE(outcome.status.ok()) << i;
    EXPECT_THAT(outcome.status.error().what(), ::testing::HasSubstr("CRC32C"));
  }
}

// To get to a crop, no more than a row of MCUs may have to be decoded.
TEST(IndexedRecords, HaveNoIntervalsLongerThanARow) {
  const Bytes jpeg = make_jpeg(make_pixels(64, 64, 1));
  Bytes record = make_record(jpeg, {.kind = RecordKind::indexed}).record;
  CoefficientImage image;
  ASSERT_EQ(read_coefficients(jpeg, {}, image), Foreign::none);
  const Bytes longer = write_jpeg(image, {.restart_interval = 16});
  Header header;
  ASSERT_EQ(read_header(longer, header), Foreign::none);
  // The same record around that file, in the parts that its intervals would be.
  const Record old = read_record(record);
  const auto number = [](Bytes& out, std::size_t at, std::size_t value) {
    const auto small = static_cast<std::uint32_t>(value);
    std::memcpy(out.data() + at, &small, sizeof(small));
  };
  std::vector<std::size_t> offsets{0, header.scan};
  for (std::size_t at = header.scan; at + 1 < longer.size(); ++at)
    if (longer[at] == std::byte{0xff} && (longer[at + 1] & std::byte{0xf8}) == std::byte{0xd0})
      offsets.push_back(at + 2);
  ASSERT_EQ(offsets.size(), 5);
  Bytes made(record.begin(), record.begin() + kRecordHead);
  made.resize(kRecordHead + offsets.size() * sizeof(RecordPart));
  for (std::size_t i = 0; i < offsets.size(); ++i)
    number(made, kRecordHead + i * sizeof(RecordPart), offsets[i]);
  number(made, 16, made.size());
  number(made, 20, offsets.size());
  number(made, 24, longer.size());
  number(made, 52, 16);
  made.insert(made.end(), longer.begin(), longer.end());
  made.resize(made.size() + kRecordSlack);
  test::sign_record(made);
  EXPECT_EQ(old.interval, 8);
  EXPECT_EQ(read_record(made).interval, 16);
  const auto decoder = make_record_decoder();
  const test::DecodeOutcome outcome = test::decode(*decoder, made, test::all);
  ASSERT_FALSE(outcome.status.ok());
  EXPECT_THAT(outcome.status.error().what(), ::testing::HasSubstr("intervals"));
}

// libjpeg's memory has grown by the time it meets the coefficient.
TEST(WriteJpeg, FailureInTheMiddle) {
  CoefficientImage image;
  const Bytes jpeg =
      test::with_segment(make_jpeg(make_pixels(16, 16, 3)), JPEG_APP0 + 1, Bytes(20'000));
  ASSERT_EQ(read_coefficients(jpeg, {}, image), Foreign::none);
  const Bytes sound = write_jpeg(image);
  image.blocks[0][5] = 20'000;
  for (int i = 0; i < 3; ++i)
    test::expect_error(ErrorCode::out_of_range, "DCT", [&] { write_jpeg(image); });
  image.blocks[0][5] = 0;
  EXPECT_EQ(write_jpeg(image).size(), sound.size());
}

TEST_P(RecordFaults, ForgedRecordsWithRightChecksums) {
  const Bytes record = make(make_jpeg(make_pixels(30, 40, 3), {.horizontal = 2, .vertical = 2}));
  test::for_each_target([&](const std::string&) {
    const auto decoder = make_record_decoder();
    Rng rng(5, 0, 0);
    int refused = 0;
    for (int i = 0; i < (test::kAddressSanitizer ? 1000 : 3000); ++i) {
      Bytes wrong = record;
      for (int k = 0; k <= i % 3; ++k)
        wrong[static_cast<std::size_t>(below(rng, static_cast<int>(wrong.size())))] =
            static_cast<std::byte>(below(rng, 256));
      test::sign_record(wrong);
      const test::DecodeOutcome outcome =
          test::decode(*decoder, wrong, test::all, {.limits = {.max_pixels = 1'000'000}});
      refused += outcome.status.ok() ? 0 : 1;
    }
    EXPECT_GT(refused, 100);
  });
}

class RecordTails : public RecordFaults {
 protected:
  RecordTails() {
    const Bytes gain_map = make_jpeg(make_pixels(9, 12, 1));
    file_ = jpeg_;
    file_.insert(file_.end(), gain_map.begin(), gain_map.end());
    Made made = make_record(file_, {.kind = GetParam(), .keep_tail = true});
    EXPECT_EQ(made.tail.size(), gain_map.size());
    record_ = std::move(made.record);
  }

  const Bytes jpeg_ = make_jpeg(make_pixels(30, 40, 3), {.horizontal = 2, .vertical = 2});
  Bytes file_;
  Bytes record_;
};

TEST_P(RecordTails, AreApartFromTheImage) {
  Rng rng(9, 0, 0);
  expect_same(jpeg_, record_, rng, "with a tail");
  const Record record = read_record(record_);
  EXPECT_EQ(make(file_), make(jpeg_));
  EXPECT_EQ(jpeg_of(record), jpeg_of(read_record(make(jpeg_))));
  EXPECT_TRUE(std::ranges::equal(record.read_tail(), std::span(file_).subspan(jpeg_.size())));
}

TEST_P(RecordTails, TruncationAtEveryLength) {
  for (std::size_t size = 0; size < record_.size(); ++size) {
    const Bytes cut(record_.begin(), record_.begin() + static_cast<std::ptrdiff_t>(size));
    test::expect_error(ErrorCode::data_loss, "image record", [&] { read_record(cut); });
  }
}

TEST_P(RecordTails, AreTheOnlyBytesThatNoDecoderChecks) {
  const auto decoder = make_record_decoder();
  const std::size_t tail = record_.size() - (file_.size() - jpeg_.size());
  for (std::size_t bit = 0; bit < 8 * record_.size(); bit += 7) {
    Bytes flipped = record_;
    flipped[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    const test::DecodeOutcome outcome = test::decode(*decoder, flipped, test::all);
    ASSERT_EQ(outcome.status.ok(), bit / 8 >= tail) << "byte " << bit / 8;
    test::expect_error(ErrorCode::data_loss, "image record", [&] {
      const Record record = read_record(flipped);
      record.check_all();
      static_cast<void>(record.read_tail());
    });
  }
}

// Lengths that add up, and others, under checksums that fit them.
TEST_P(RecordTails, ForgedLengthsWithRightChecksums) {
  const auto number = [](Bytes& bytes, std::size_t at, std::size_t value) {
    const auto small = static_cast<std::uint32_t>(value);
    std::memcpy(bytes.data() + at, &small, sizeof(small));
  };
  const Record sound = read_record(record_);
  const std::size_t size = sound.tail.size();
  for (const std::size_t wrong :
       {std::size_t{0}, size - 1, size + 1, size + 256, record_.size(), std::size_t{0xffffffff}}) {
    Bytes lying = record_;
    number(lying, kRecordHead, wrong);
    test::sign_record(lying);
    test::expect_error(ErrorCode::data_loss, "the length in its header",
                       [&] { read_record(lying); });
  }
  // The payload ends in the tail, so that no zeros are where they should be.
  Bytes shifted = record_;
  number(shifted, 24, sound.payload.size() + size);
  number(shifted, kRecordHead, 0);
  test::sign_record(shifted);
  test::expect_error(ErrorCode::data_loss, "image record",
                     [&] { read_record(shifted).check_all(); });
  // A record of version 1 has no tail, and one of version 2 has the fields of one.
  for (const int version : {0, 1, 3, 255}) {
    Bytes other = record_;
    other[4] = static_cast<std::byte>(version);
    test::sign_record(other);
    test::expect_error(ErrorCode::data_loss, "image record", [&] { read_record(other); });
  }
  Bytes none = make(jpeg_);
  none[4] = std::byte{kRecordWithTail};
  test::sign_record(none);
  test::expect_error(ErrorCode::data_loss, "image record", [&] { read_record(none); });
}

TEST_P(RecordTails, DoNoHarmWhereAnyByteLies) {
  const Limits limits{.max_pixels = 1'000'000};
  Rng rng(10, 0, 0);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    Bytes wrong = record_;
    // Every other one has its damage in the head.
    const auto end = static_cast<int>(i % 2 == 0 ? wrong.size() : kRecordHead + kRecordTailHead);
    for (int k = 0; k <= i % 3; ++k)
      wrong[static_cast<std::size_t>(below(rng, end))] = static_cast<std::byte>(below(rng, 256));
    test::sign_record(wrong);
    const std::optional<Error> error = test::thrown_by([&] {
      const Record record = read_record(wrong);
      EXPECT_LE(record.tail.size(), wrong.size());
      static_cast<void>(jpeg_of(record, limits));
      static_cast<void>(record.read_tail());
    });
    if (!error) continue;
    ++refused;
    ASSERT_TRUE(error->code() == ErrorCode::data_loss || error->code() == ErrorCode::out_of_range)
        << error->what();
  }
  EXPECT_GT(refused, 100);
}

INSTANTIATE_TEST_SUITE_P(Kinds, RecordTails,
                         ::testing::Values(RecordKind::coefficients, RecordKind::indexed),
                         [](const auto& kind) { return std::string(name_of(kind.param)); });
INSTANTIATE_TEST_SUITE_P(Kinds, RecordFaults,
                         ::testing::Values(RecordKind::coefficients, RecordKind::indexed),
                         [](const auto& kind) { return std::string(name_of(kind.param)); });

}  // namespace record_faults_test
}  // namespace penstock::jpeg
