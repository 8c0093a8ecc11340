// Writes a file of image records, and resumes one that was not finished.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/io/exclusive_file.h"
#include "pipeline/sources/image_records_format.h"

namespace penstock {

/// A writer of image records. Used by one thread. Throws as WritableFile does.
class ImageRecordsWriter {
 public:
  /// Returns true if a record that a killed writer left equals the one that this writer would
  /// write.
  using Fits = std::function<bool(const records_file::Frame& frame, std::string_view key,
                                  std::span<const std::byte> image)>;

  /// Keeps the leading records of `path`.partial that are whole and fit, if its header is the one
  /// that this writer would write. In a store nothing can be kept.
  ImageRecordsWriter(const std::string& path,
                     const std::array<std::byte, records_file::kHeaderBytes>& header,
                     const Limits& limits, const Fits& fits);

  /// Returns the number of records so far.
  std::uint64_t size() const noexcept { return entries_.size(); }
  void append(const records_file::Frame& frame, std::string_view key,
              std::span<const std::byte> image);
  /// Completes the file. Returns its size.
  std::uint64_t commit(std::uint64_t as_they_are, std::vector<std::string> class_names);

 private:
  void append(std::span<const std::byte> bytes);
  void keep_what_fits(ExclusiveFile& file, std::span<const std::byte> header, const Limits& limits,
                      const Fits& fits);

  std::unique_ptr<WritableFile> file_;
  std::uint64_t bytes_ = 0;  // bytes kept and appended
  std::vector<IndexEntry> entries_;
};

}  // namespace penstock
