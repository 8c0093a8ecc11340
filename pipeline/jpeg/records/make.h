// Making image records of JPEGs, and JPEGs of image records.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <penstock/limits.h>

#include "pipeline/core/codec_budget.h"
#include "pipeline/jpeg/records/layout.h"
#include "pipeline/jpeg/records/table_sample.h"
#include "pipeline/jpeg/records/transcode.h"

namespace penstock::jpeg {

struct MakeOptions {
  RecordKind kind = RecordKind::coefficients;
  Limits limits{};
  const SharedTables* tables = nullptr;  ///< for indexed records; null: each has its own tables
  bool strict_images = false;            ///< as in DecodeOptions, for the file
  bool keep_tail = false;                ///< stores the bytes after the image's end
  CodecBudget* budget = nullptr;         ///< asked for all memory but that of the file
};

struct Made {
  std::vector<std::byte> record;  ///< empty: the image is better stored as it is
  std::string why;                ///< …for this reason: "components", "range", "markers"
  /// If there is a record: the bytes of the file after the image's end. A view of the file.
  std::span<const std::byte> tail{};
};

/// Makes the record of a JPEG file. The record, and the JPEG that it is unpacked to, decode to the
/// same pixels as the file; the function checks that. Throws Error{data_loss | out_of_range} for a
/// file that does not decode, and the budget's Error{resource_exhausted}. Thread-safe.
Made make_record(std::span<const std::byte> file, const MakeOptions& options = {});

/// Returns the JPEG of a record, without the tail. For an indexed record that is the file it holds;
/// for coefficients a file is written. Throws Error{data_loss} for a damaged record, and
/// Error{out_of_range} for more pixels than the limits allow.
std::vector<std::byte> jpeg_of(const Record& record, const Limits& limits = {});

}  // namespace penstock::jpeg
