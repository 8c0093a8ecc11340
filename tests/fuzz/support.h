// Helpers that the fuzz targets share.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>

#include <penstock/source.h>
#include <penstock/sources.h>

#include "tests/fuzz/targets.h"
#include "tests/support/deflate.h"

namespace penstock::fuzz {

/// Aborts the process with a message unless `holds`, in every build.
inline void require(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

/// Aborts the process with a message, and says where each of its threads is.
[[noreturn]] void stuck(std::string_view what);

/// An input, divided into its options and its file.
struct Input {
  explicit Input(Bytes bytes)
      : options(bytes.empty() ? 0 : std::to_integer<unsigned>(bytes[0])),
        file(reinterpret_cast<const char*>(bytes.data()) + (bytes.empty() ? 0 : 1),
             bytes.empty() ? 0 : bytes.size() - 1) {}

  bool option(int bit) const { return (options >> bit & 1) != 0; }

  unsigned options;
  std::string file;
};

/// Returns `bytes` as a gzip or zlib file, with the fastest compression.
inline std::string packed(const std::string& bytes, bool zlib) {
  return test::deflated(bytes, zlib ? test::Wrapper::zlib : test::Wrapper::gzip, 1);
}

inline std::string with_options(unsigned options, const std::string& file) {
  return static_cast<char>(options) + file;
}

/// Returns limits under which nothing is slow or large.
Limits small_limits();

/// Requires that the error is a permitted answer to malformed bytes, and that it has a text.
void require_answer(const Error& error);

/// Reads the first records of an indexed source twice: in order, and one by one from the last to
/// the first. Requires that both give the same, and take no more memory than `most_bytes`.
void read_indexed(const Source& source, std::uint64_t most_records, std::uint64_t most_bytes);

/// Makes a source of one file in memory, "file", and reads all of its records in order. If it is
/// indexed, then reads them one by one from the last to the first. Requires that both give the
/// same, and that memory is bounded by the size of the file.
void read_all(const std::string& file, const std::function<SourcePtr(FileSystemPtr)>& make);

}  // namespace penstock::fuzz
