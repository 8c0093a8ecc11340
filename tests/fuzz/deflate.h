// gzip and zlib files.
#pragma once

#include <string>

#include <zlib.h>

#include "tests/fuzz/support.h"

namespace penstock::fuzz {

/// `bytes` as a gzip or zlib file.
inline std::string deflated(const std::string& bytes, bool gzip) {
  constexpr int kZlib = 15;
  constexpr int kGzip = kZlib + 16;
  z_stream z{};
  require(deflateInit2(&z, 1, Z_DEFLATED, gzip ? kGzip : kZlib, 8, Z_DEFAULT_STRATEGY) == Z_OK,
          "zlib");
  std::string out(deflateBound(&z, bytes.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  require(deflate(&z, Z_FINISH) == Z_STREAM_END, "zlib");
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

}  // namespace penstock::fuzz
