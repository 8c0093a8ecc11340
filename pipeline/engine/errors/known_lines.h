// A set of lines that takes no memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "pipeline/io/posix.h"

namespace penstock {

/// A set of lines, each known by a hash of 64 bits, in a temporary file without a name. Its memory
/// does not depend on the number of lines. Not synchronised.
class KnownLines {
 public:
  /// Keeps the file in `folder`, or where temporary files go if that is not possible. This and
  /// `add` throw Error{unavailable | resource_exhausted} naming the folder.
  explicit KnownLines(const std::string& folder);

  /// Adds a line. Returns false if it was there.
  bool add(std::string_view line);

 private:
  /// A hash table with open addressing. 0 marks a free place.
  struct Table {
    UniqueFd fd;
    std::uint64_t places = 0;  ///< a power of two
  };

  Table make_table(UniqueFd fd, std::uint64_t places) const;
  bool insert(const Table& table, std::uint64_t hash) const;
  void grow();

  std::string folder_;
  Table table_;
  std::uint64_t count_ = 0;
};

}  // namespace penstock
