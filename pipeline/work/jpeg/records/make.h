// Image records of JPEGs.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <penstock/limits.h>

#include "pipeline/work/jpeg/records/layout.h"
#include "pipeline/work/jpeg/records/table_sample.h"
#include "pipeline/work/jpeg/records/transcode.h"

namespace penstock::jpeg {

struct MakeOptions {
  RecordKind kind = RecordKind::coefficients;
  Limits limits{};
  const SharedTables* tables = nullptr;  ///< for indexed records; null: each has its own
};

struct Made {
  std::vector<std::byte> record;  ///< empty: the image is better stored as it is
  std::string why;                ///< …because of this: "png", "components", "progressive"
};

/// Makes records. Used by one thread at a time.
class RecordMaker {
 public:
  explicit RecordMaker(MakeOptions options) : options_(options) {}

  /// The record of an image file, which decodes to the same pixels: that was tried. Throws
  /// Error{data_loss | out_of_range} for a file that does not decode.
  Made make(std::span<const std::byte> file);

 private:
  std::vector<std::byte> pack(const CoefficientImage& image, int orientation) const;
  std::vector<std::byte> index(const CoefficientImage& image, int orientation);

  MakeOptions options_;
  Transcoder transcoder_;
  CoefficientImage image_;
};

/// The other way: the JPEG of a record. Of an indexed one that is the file it holds; of
/// coefficients one is written. Throws Error{data_loss} for a damaged record.
std::vector<std::byte> jpeg_of(const Record& record);
/// All coefficients and the metadata of a record of coefficients. Throws Error{data_loss}.
CoefficientImage unpack(const Record& record);

}  // namespace penstock::jpeg
