// Shards as datasets, each format opened in its own way.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <penstock/dataset.h>

#include "tools/penstock/shards/format.h"

namespace penstock::tool {

/// A file or folder with data.
struct Shard {
  std::string path;
  Format format = Format::unknown;
  std::uint64_t bytes = 0;  ///< of a file
};

/// The files in folders that are not looked at: those next to images that no source reads, and
/// hidden ones.
class PassedOver {
 public:
  void add(const std::string& path);
  void add(const PassedOver& others);
  std::uint64_t count() const noexcept;
  /// Counts files that are skipped because they are hidden.
  void add_hidden(std::uint64_t count) noexcept { hidden_ += count; }
  /// Returns text such as "3 other files beside images, not looked at: .txt (1), .webp (2)".
  std::string text() const;

 private:
  std::uint64_t hidden_ = 0;
  std::map<std::string, std::uint64_t> by_extension_;
};

/// The result of a search for shards.
struct Shards {
  std::vector<Shard> found;
  PassedOver skipped;
};

/// Finds the shards of a path. A file is one shard. In a folder, all images together are one shard,
/// and the data files below it follow, sorted. Next to images, a file counts only if its bytes or
/// its name are those of a shard. Files that are hidden below a folder are skipped, unless
/// `hidden`. Expands patterns. Throws Error{not_found} if there is nothing.
Shards find_shards(const std::string& path, bool hidden = false);

/// Returns the records of a shard. For IDX, adds the labels from the file next to it with a
/// matching name, if there is one. Throws the errors of the source, and of `refuse_unknown`.
Dataset open_shard(const Shard& shard, bool hidden = false);

/// Throws Error{data_loss} for a file of unknown format. It names a format that is not read, and
/// what to do, if that is known (see other_format.h).
[[noreturn]] void refuse_unknown(const std::string& path);

/// Returns the records, decoded as far as needed to know labels and images. Looks for a tf.Example
/// among the first 1,000 records. If the first one found has an encoded image or a label, all are
/// parsed.
Dataset open_samples(const Shard& shard, bool hidden = false);

/// Returns the file of labels whose name matches that of an IDX file of images; empty if there is
/// none.
std::string labels_beside(const std::string& images);

/// Returns the component that holds an encoded image, if there is one.
std::optional<std::string> encoded_component(const Spec& spec);

}  // namespace penstock::tool
