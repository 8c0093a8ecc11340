// The format of IDX files (MNIST), plain or compressed.
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

/// The header of an IDX file. Values are big-endian. Source of the format:
/// http://yann.lecun.com/exdb/mnist/.
struct IdxHeader {
  DType dtype = DType::u8;
  Shape shape;
  std::uint64_t data_offset = 0;

  std::uint64_t rows() const noexcept { return static_cast<std::uint64_t>(shape[0]); }
};

/// A function that fills a span with the next bytes of a file, from its start on. It returns fewer
/// bytes only at the end of the file.
using ReadFront = std::function<std::size_t(std::span<std::byte>)>;

/// Reads the header of `file`. Throws Error{data_loss} that names it if the bytes are no header,
/// and Error{invalid_argument} if they are of another format that is known.
IdxHeader read_idx_header(const ReadFront& read, File& file);

/// A file in memory: the rows that it really holds, and their size.
struct IdxContents {
  IdxHeader header;
  BufferPtr data;
  std::uint64_t bytes = 0;  ///< at most rows * row_bytes
};

/// Reads all of a file, and decompresses gzip and zlib. Takes no more memory than the file's size
/// times max_inflate_ratio. Throws Error{data_loss}, also for damaged compressed data: rows without
/// a valid checksum are not delivered.
IdxContents load_idx(const std::shared_ptr<File>& file, const Limits& limits);
bool is_compressed(File& file);

}  // namespace penstock
