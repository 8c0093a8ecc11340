// Compressed test data.
#pragma once

#include <stdexcept>
#include <string>

#include <zlib.h>

namespace penstock::test {

enum class Wrapper { none, gzip, zlib };

inline std::string name_of(Wrapper wrapper) {
  return wrapper == Wrapper::none ? "plain" : wrapper == Wrapper::gzip ? "gzip" : "zlib";
}

/// Returns `bytes` as a gzip or zlib file; with Wrapper::none, unchanged.
inline std::string deflated(const std::string& bytes, Wrapper wrapper, int level = 6) {
  if (wrapper == Wrapper::none) return bytes;
  constexpr int kZlib = 15;
  constexpr int kGzip = kZlib + 16;
  z_stream stream{};
  if (deflateInit2(&stream, level, Z_DEFLATED, wrapper == Wrapper::gzip ? kGzip : kZlib, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("deflateInit2");
  std::string out(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) throw std::runtime_error("deflate");
  return out;
}

inline std::string gzip(const std::string& bytes) {
  return deflated(bytes, Wrapper::gzip);
}

}  // namespace penstock::test
