// Image files in folders as a source.
#pragma once

#include <string>

#include <penstock/source.h>
#include <penstock/sources.h>

namespace penstock {

/// {image: bytes, label: i64, key: bytes}, sorted bytewise by path; the key is the path below the
/// folder (or below the part of the pattern that has no wildcard). What the bytes are is the
/// decoder's business. A file that differs from what was found at the start fails with data_loss, a
/// file above the limit with out_of_range. Throws Error{not_found} if there are no images, and
/// Error{invalid_argument} naming the first files that the label expression does not match.
SourcePtr make_images_source(const std::string& folder_or_pattern, const ImagesOptions& options);

}  // namespace penstock
