// JPEGs of every kind, packed as image records.
#pragma once

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/jpeg/records/decoder.h"
#include "pipeline/jpeg/records/make.h"
#include "pipeline/jpeg/turbo/turbo.h"
#include "tests/support/decoding.h"
#include "tests/support/errors.h"
#include "tests/support/image_records.h"
#include "tests/support/jpeg_coefficients.h"

namespace penstock::jpeg {

inline int below(Rng& rng, int limit) {
  return static_cast<int>(rng.below(static_cast<std::uint64_t>(limit)));
}

inline image::DecodePlan random_plan(const image::ImageInfo& info, Rng& rng, int denominator) {
  const int height = (info.size.height + denominator - 1) / denominator;
  const int width = (info.size.width + denominator - 1) / denominator;
  const int top = below(rng, height);
  const int left = below(rng, width);
  return {denominator, {top, left, 1 + below(rng, height - top), 1 + below(rng, width - left)}};
}

class Records : public ::testing::TestWithParam<RecordKind> {
 protected:
  std::vector<std::byte> make(std::span<const std::byte> jpeg) {
    Made made = make_record(jpeg, {.kind = GetParam()});
    EXPECT_EQ(made.why, "");
    return std::move(made.record);
  }

  /// Compares regions of a record at all scales with those that libjpeg-turbo decodes from the
  /// file.
  void expect_same(std::span<const std::byte> jpeg, std::span<const std::byte> record, Rng& rng,
                   const std::string& what, int channels = 3) {
    const auto records = make_record_decoder();
    const auto library = image::make_jpeg_decoder();
    const DecodeOptions options{.orient = true, .channels = channels};
    for (int i = 0; i < 9; ++i) {
      image::DecodePlan chosen;
      const test::DecodeOutcome theirs = test::decode(
          *library, jpeg,
          [&](const image::ImageInfo& info) {
            chosen = i == 0 ? test::all(info) : random_plan(info, rng, 1 << i % 4);
            return chosen;
          },
          options);
      const test::DecodeOutcome ours = test::decode(
          *records, record, [&](const image::ImageInfo&) { return chosen; }, options);
      ASSERT_TRUE(theirs.status.ok());
      ASSERT_TRUE(ours.status.ok()) << what << ": " << ours.status.error().what();
      ASSERT_EQ(ours.info.size, theirs.info.size) << what;
      ASSERT_EQ(ours.info.orientation, theirs.info.orientation) << what;
      ASSERT_EQ(test::difference(theirs.pixels, ours.pixels,
                                 {0, 0, chosen.region.height, chosen.region.width}),
                "")
          << what << " at 1/" << chosen.denominator << " from " << chosen.region.left << ","
          << chosen.region.top;
    }
  }
};

}  // namespace penstock::jpeg
