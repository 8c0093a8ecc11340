// What the targets share.
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

/// Ends the process loudly, in every build.
inline void require(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

/// An input: its options and its file.
struct Input {
  explicit Input(Bytes bytes)
      : options(bytes.empty() ? 0 : std::to_integer<unsigned>(bytes[0])),
        file(reinterpret_cast<const char*>(bytes.data()) + (bytes.empty() ? 0 : 1),
             bytes.empty() ? 0 : bytes.size() - 1) {}

  bool option(int bit) const { return (options >> bit & 1) != 0; }

  unsigned options;
  std::string file;
};

/// `bytes` as a gzip or a zlib file, quickly.
inline std::string packed(const std::string& bytes, bool zlib) {
  return test::deflated(bytes, zlib ? test::Wrapper::zlib : test::Wrapper::gzip, 1);
}

inline std::string with_options(unsigned options, const std::string& file) {
  return static_cast<char>(options) + file;
}

/// Limits under which nothing is slow or large.
Limits small_limits();

/// That an error is one that bytes can be answered with, and says something.
void require_answer(const Error& error);

/// Reads the first records of an indexed source twice: in order, and each on its own from the last
/// to the first. Both must give the same, and ask for no more memory than `most_bytes`.
void read_indexed(const Source& source, std::uint64_t most_records, std::uint64_t most_bytes);

/// Makes a source of one file in memory, "file", and reads all of its records twice: in order, and,
/// if it is indexed, each on its own from the last to the first. Both must give the same, in memory
/// that is bounded by the size of the file.
void read_all(const std::string& file, const std::function<SourcePtr(FileSystemPtr)>& make);

}  // namespace penstock::fuzz
