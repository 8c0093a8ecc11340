// Huffman tables that many images share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "pipeline/jpeg/records/transcode.h"

namespace penstock::jpeg {

/// True if tables with a code for every symbol of a baseline file can encode the image.
bool encodable(const CoefficientImage& image) noexcept;

/// A sample of blocks, in the form in which indexed records store them: the DC is the difference
/// from the block before, within the restart interval.
class TableSample {
 public:
  /// Adds some of the image's blocks.
  void add(const CoefficientImage& image);
  /// Adds the blocks of the other sample, as far as there is room.
  void add(const TableSample& other);

  /// Returns the tables that make these blocks smallest, with a code for every symbol. Throws
  /// Error{resource_exhausted} as libjpeg does.
  SharedTables tables() const;

 private:
  std::array<std::vector<std::int16_t>, 2> blocks_;  // for each table; natural order
};

}  // namespace penstock::jpeg
