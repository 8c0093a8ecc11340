// IDX files as a source.
#pragma once

#include <penstock/source.h>
#include <penstock/sources.h>

namespace penstock {

/// {image: <dtype> [...]} and, if `labels_path` is not empty, {label: i64}. Compressed images and
/// labels are kept in memory; plain images are read when needed. A file that holds fewer rows than
/// it promises delivers them and then fails once with data_loss. Throws Error{not_found},
/// Error{data_loss} for what is not IDX, and Error{invalid_argument} if images and labels differ in
/// number or the labels are not whole numbers.
SourcePtr make_idx_source(const std::string& images_path, const std::string& labels_path,
                          const FileOptions& options);

}  // namespace penstock
