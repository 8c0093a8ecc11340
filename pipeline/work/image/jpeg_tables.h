// Keeps a libjpeg decoder from lending one file's tables to the next.
#pragma once

#include <array>
#include <cstddef>
#include <cstdio>

// After <cstdio>, which it needs.
#include <jpeglib.h>

namespace penstock::image {

/// The library keeps quantisation and Huffman tables for files that come without. Here a file that
/// lacks a table must fare as in a new decoder, whatever was decoded before, but the tables' memory
/// is to be reused. So tables are marked before the header is read, and those that it left marked
/// are taken out of the decoder until the next file.
class Tables {
 public:
  /// Before a file: puts back what was taken out, marks all.
  void mark(jpeg_decompress_struct& info);
  /// Behind the header.
  void drop_marked(jpeg_decompress_struct& info);
  /// Tables whose memory is of no more use.
  int lost() const noexcept { return lost_; }

 private:
  template <typename Table>
  using Slots = std::array<Table*, NUM_QUANT_TBLS>;

  template <typename Table>
  void mark(Table** tables, Slots<Table>& spare);
  template <typename Table>
  void drop_marked(Table** tables, Slots<Table>& spare);

  Slots<JQUANT_TBL> quantisation_{};
  Slots<JHUFF_TBL> dc_{};
  Slots<JHUFF_TBL> ac_{};
  int lost_ = 0;
};

}  // namespace penstock::image
