// A file that is written from front to back.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace penstock::tool {

/// An output file, plain or compressed by zlib. Every failure is an Error with the path and the
/// reason of the system or the store; for a file it is Error{unavailable}. An object in a store
/// appears when `close` returns, and not in part before. Not synchronised.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  virtual void write(std::string_view bytes) = 0;
  /// Writes the buffered bytes and closes the file.
  virtual void close() = 0;
  /// The number of bytes written so far, before compression.
  std::uint64_t offset() const noexcept { return offset_; }

 protected:
  std::uint64_t offset_ = 0;
};

/// Creates a file. `compression`: "none", "gzip" or "zlib".
std::unique_ptr<OutputFile> create_file(const std::string& path,
                                        const std::string& compression = "none");

}  // namespace penstock::tool
