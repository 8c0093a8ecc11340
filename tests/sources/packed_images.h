// Images that are packed, for tests of their records.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/image.h>
#include <penstock/image_records.h>
#include <penstock/iterator.h>

#include "tests/support/files.h"

namespace penstock::test {

struct Sample {
  std::string key;
  std::int64_t label;
  std::vector<std::uint8_t> pixels;

  friend bool operator==(const Sample&, const Sample&) = default;
};

/// The decoded images of a dataset, or its first error.
inline std::vector<Sample> decoded(const Dataset& dataset) {
  std::vector<Sample> samples;
  Iterator iterator = dataset.map(decode_image("image")).iterate({.threads = 2});
  for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
    const Element& element = next.value();
    samples.push_back({std::string(element["key"].bytes_at()),
                       element["label"].item<std::int64_t>(),
                       element["image"].to_vector<std::uint8_t>()});
  }
  return samples;
}

/// A folder of images and a file of records of one kind.
class PackedImages : public ::testing::TestWithParam<ImageRecordKind> {
 protected:
  ImagePackOptions options() const {
    ImagePackOptions options;
    options.kind = GetParam();
    options.threads = 2;
    return options;
  }

  TempFolder folder_;
  const std::string in_ = folder_ / "in";
  const std::string out_ = folder_ / "photos.pnr";
};

inline auto packed_kinds() {
  return ::testing::Values(ImageRecordKind::coefficients, ImageRecordKind::indexed);
}
inline std::string name_of_kind(const ::testing::TestParamInfo<ImageRecordKind>& kind) {
  return kind.param == ImageRecordKind::coefficients ? "coefficients" : "indexed";
}

}  // namespace penstock::test
