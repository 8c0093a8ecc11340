// Image records as a format of images.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "pipeline/work/image/codec.h"
#include "pipeline/work/jpeg/records/layout.h"

namespace penstock::jpeg {

/// Decodes image records: of the parts only those that the region touches are read, and have their
/// CRC32C checked; for a whole image every byte is. What a Picture can't do, and everything if
/// libjpeg-turbo is the back end that was chosen, is written as a JPEG and left to libjpeg-turbo.
std::unique_ptr<image::Decoder> make_record_decoder();

/// "records of coefficients are expanded, …": how, and why.
std::string describe_record_choice();

/// Records that all threads decoded since the process started, by kind, other than by
/// libjpeg-turbo.
std::array<std::uint64_t, kRecordKinds> record_counts() noexcept;
/// Counts one.
void count_record(RecordKind kind) noexcept;

}  // namespace penstock::jpeg
