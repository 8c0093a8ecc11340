// Keeps a libjpeg decoder from using one file's tables for the next file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdio>

// After <cstdio>, which it needs.
#include <jpeglib.h>

namespace penstock::image {

/// The tables of a libjpeg decoder. The library keeps quantisation and Huffman tables for files
/// that come without. Here, a file that lacks a table must fare as in a new decoder, whatever was
/// decoded before, but the tables' memory should be reused. So all tables are marked before the
/// header is read. Those that are still marked afterwards are taken out of the decoder until the
/// next file.
class Tables {
 public:
  /// Call it before a file: puts back the tables that were taken out, and marks all.
  void mark(jpeg_decompress_struct& info);
  /// Call it after the header was read.
  void drop_marked(jpeg_decompress_struct& info);
  /// Returns the number of tables whose memory can't be used any more.
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
