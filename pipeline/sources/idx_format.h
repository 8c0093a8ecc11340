// IDX files (MNIST), plain or compressed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include <penstock/buffer.h>
#include <penstock/dtype.h>
#include <penstock/file_system.h>
#include <penstock/limits.h>
#include <penstock/shape.h>

namespace penstock {

/// Source of the format: http://yann.lecun.com/exdb/mnist/. Values are big-endian.
struct IdxHeader {
  DType dtype = DType::u8;
  Shape shape;
  std::uint64_t data_offset = 0;

  std::uint64_t rows() const noexcept { return static_cast<std::uint64_t>(shape[0]); }
};

/// Fills a span from the front of a file on; returns fewer bytes only at its end.
using ReadFront = std::function<std::size_t(std::span<std::byte>)>;

/// Throws Error{data_loss} naming `path` for anything but a header.
IdxHeader read_idx_header(const ReadFront& read, const std::string& path);

/// A file in memory: whatever rows are there, and how many bytes that is.
struct IdxContents {
  IdxHeader header;
  BufferPtr data;
  std::uint64_t bytes = 0;  ///< at most rows * row_bytes
};

/// Reads all of a file, decompressing it if it is gzip or zlib. Takes no more memory than the
/// file's size times max_inflate_ratio. Throws Error{data_loss} also for damaged compressed data:
/// rows that no checksum vouches for are not delivered.
IdxContents load_idx(const std::shared_ptr<File>& file, const Limits& limits);
bool is_compressed(File& file);

}  // namespace penstock
