// A file that is written front to back.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace penstock::tool {

/// Plain, or compressed by zlib. Every failure is an Error{unavailable} with the path and the
/// system's reason. Not synchronised.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  virtual void write(std::string_view bytes) = 0;
  /// Writes what is buffered and closes.
  virtual void close() = 0;
  /// Bytes taken so far, before compression.
  std::uint64_t offset() const noexcept { return offset_; }

 protected:
  std::uint64_t offset_ = 0;
};

/// `compression`: "none", "gzip" or "zlib".
std::unique_ptr<OutputFile> create_file(const std::string& path,
                                        const std::string& compression = "none");

}  // namespace penstock::tool
