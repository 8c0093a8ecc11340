// Files of records of one size as a source.
#pragma once

#include <penstock/source.h>
#include <penstock/sources.h>

namespace penstock {

/// {record: u8 [record_bytes]}: what lies between each file's header and footer. Throws
/// Error{not_found} that lists what is missing, Error{invalid_argument} for records of no bytes,
/// and Error{data_loss} for a file that is shorter than its header and footer.
SourcePtr make_fixed_records_source(const Paths& paths, std::uint64_t record_bytes,
                                    const FixedRecordOptions& options);

}  // namespace penstock
