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
  std::string why;                ///< …because of this: "png", "components", "markers"
};

/// The record of an image file. It decodes to the same pixels, and so does the JPEG that it is
/// unpacked to: that was tried. Throws Error{data_loss | out_of_range} for a file that does not
/// decode. Thread-safe.
Made make_record(std::span<const std::byte> file, const MakeOptions& options = {});

/// The other way: the JPEG of a record. Of an indexed one that is the file it holds; of
/// coefficients one is written. Throws Error{data_loss} for a damaged record, Error{out_of_range}
/// for one of more pixels than the limits allow.
std::vector<std::byte> jpeg_of(const Record& record, const Limits& limits = {});

}  // namespace penstock::jpeg
