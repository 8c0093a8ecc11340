// The decoder of image records.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "pipeline/codec/codec.h"
#include "pipeline/jpeg/records/layout.h"

namespace penstock::jpeg {

/// Makes a decoder of image records. It reads only the parts that the region touches, and checks
/// their CRC32C. For a whole image it checks every byte. It writes as a JPEG, for libjpeg-turbo,
/// any record that a Picture does not support, and all records if libjpeg-turbo is the chosen back
/// end.
std::unique_ptr<image::Decoder> make_record_decoder();

/// Describes how records are decoded, and why: "records of coefficients are expanded, …".
std::string describe_record_choice();

/// Returns the number of records that all threads decoded since the process started, by kind. Those
/// that libjpeg-turbo decoded do not count.
std::array<std::uint64_t, kRecordKinds> record_counts() noexcept;
/// Counts one record.
void count_record(RecordKind kind) noexcept;

}  // namespace penstock::jpeg
