// Comma-separated values: where records end, their fields, and numbers in them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/dtype.h>
#include <penstock/tensor.h>

#include "pipeline/sources/text_records.h"

namespace penstock {

/// Makes a scanner that ends records at newlines outside of quotes. Source of the format: RFC 4180.
std::unique_ptr<RecordScanner> make_csv_scanner(char delimiter);

/// Returns `record` without its end: \n and any \r in front of it. A text file of Windows into
/// which \r\n was written has \r\r\n. At the end of a file, the \n may be missing.
std::string_view without_csv_end(std::string_view record) noexcept;

struct CsvField {
  std::string_view text;  ///< without the quotes around it
  bool escaped = false;   ///< each "" in it stands for a "
};

/// Splits a record (without its end) into `fields`, whose memory is reused. Returns an error text,
/// or an empty text if the record is valid. A record has one more field than it has delimiters.
/// Quotes may only stand around a whole field.
std::string split_csv(std::string_view record, char delimiter, std::vector<CsvField>& fields);

/// Writes `text` to `out`, with each "" made into one ". Returns the number of bytes written, which
/// is at most text.size().
std::size_t unescape_csv(std::string_view text, char* out) noexcept;

/// Returns `text` without the blanks that are allowed around a number.
std::string_view trimmed_number(std::string_view text) noexcept;

/// Returns a scalar of dtype i64, f32 or f64. Spaces around the number are allowed. A number whose
/// amount is below the least f32 (1.2e-38, of those in full precision) or f64 (4.9e-324) is 0.
/// Throws Error{data_loss} for any other text, and for numbers that are too large for the dtype.
Tensor parse_number(std::string_view text, DType dtype);

}  // namespace penstock
