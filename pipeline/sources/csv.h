// CSV files as a source.
#pragma once

#include <penstock/source.h>
#include <penstock/sources.h>

namespace penstock {

/// One scalar component per column, RFC 4180 quoting. With a header the columns to keep are found
/// by name, else they name the fields in order (none given: c0, c1, …). Every record must have as
/// many fields as the header, or as the first record; a blank line is one empty field. A byte order
/// mark is passed over. Throws Error{not_found} that lists missing files, and
/// Error{invalid_argument} for files whose headers differ, columns that do not exist or are named
/// twice, dtypes that a field can't have, and defaults that are no number.
SourcePtr make_csv_source(const Paths& paths, const CsvOptions& options);

}  // namespace penstock
