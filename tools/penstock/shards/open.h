// Shards as datasets, each format in its own way.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <penstock/dataset.h>

#include "tools/penstock/shards/format.h"

namespace penstock::tool {

/// A file or folder that was found.
struct Shard {
  std::string path;
  Format format = Format::unknown;
  std::uint64_t bytes = 0;  ///< of a file
};

struct Shards {
  std::vector<Shard> found;
  std::uint64_t passed_over = 0;  ///< other files, in a folder with images
};

/// The path itself or, for a folder, its images as one and the data files below it, sorted. Beside
/// images only files whose bytes or names are those of shards count. Patterns are expanded. Throws
/// Error{not_found} if there is nothing.
Shards find_shards(const std::string& path);

/// The records of a shard; for IDX labels are taken from the file beside it whose name says so, if
/// there is one. Throws Error as the source does, and Error{data_loss} for an unknown format.
Dataset open_shard(const Shard& shard);

/// The same, taken apart as far as needed to know labels and images: tf.Examples are parsed if the
/// first one among the first 1,000 records has an encoded image or a label.
Dataset open_samples(const Shard& shard);

/// The component that holds an encoded image, if there is one.
std::optional<std::string> encoded_component(const Spec& spec);

}  // namespace penstock::tool
