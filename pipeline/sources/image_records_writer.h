// Writes a file of image records, and goes on with one that was not finished.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/io/exclusive_file.h"
#include "pipeline/sources/image_records_format.h"

namespace penstock {

/// Used by one thread. Throws as ExclusiveFile does.
class ImageRecordsWriter {
 public:
  /// Says whether a record that a killed writer left is one that this one would write again.
  using Fits = std::function<bool(const records_file::Frame& frame, std::string_view key,
                                  std::span<const std::byte> image)>;

  /// Keeps the records at the front of `path`.partial that are whole and fit.
  ImageRecordsWriter(const std::string& path, ImageRecordKind kind, const Limits& limits,
                     const Fits& fits);

  /// Records so far.
  std::uint64_t size() const noexcept { return entries_.size(); }
  void append(const records_file::Frame& frame, std::string_view key,
              std::span<const std::byte> image);
  /// The file is complete. Returns its size.
  std::uint64_t commit(std::uint64_t as_they_are, std::vector<std::string> class_names);

 private:
  ExclusiveFile file_;
  std::vector<IndexEntry> entries_;
};

}  // namespace penstock
