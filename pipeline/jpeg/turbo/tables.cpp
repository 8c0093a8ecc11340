#include "pipeline/jpeg/turbo/tables.h"

#include <algorithm>

namespace penstock::image {

namespace {

static_assert(NUM_QUANT_TBLS == NUM_HUFF_TBLS);

/// No real file has a quantisation table with this value everywhere.
constexpr UINT16 kNoQuantum = 0xa5c3;
/// After a DHT segment, bits[0] is zero, since it counts nothing.
constexpr UINT8 kNoBits = 0xff;

void set_mark(JQUANT_TBL& table) {
  std::fill_n(table.quantval, DCTSIZE2, kNoQuantum);
}
void set_mark(JHUFF_TBL& table) {
  table.bits[0] = kNoBits;
}

bool is_marked(const JQUANT_TBL& table) {
  return std::all_of(table.quantval, table.quantval + DCTSIZE2,
                     [](UINT16 value) { return value == kNoQuantum; });
}
bool is_marked(const JHUFF_TBL& table) {
  return table.bits[0] == kNoBits;
}

}  // namespace

template <typename Table>
void Tables::mark(Table** tables, Slots<Table>& spare) {
  for (std::size_t i = 0; i < spare.size(); ++i) {
    if (tables[i] == nullptr) {
      tables[i] = spare[i];
    } else if (spare[i] != nullptr) {
      ++lost_;
    }
    spare[i] = nullptr;
    if (tables[i] != nullptr) set_mark(*tables[i]);
  }
}

template <typename Table>
void Tables::drop_marked(Table** tables, Slots<Table>& spare) {
  for (std::size_t i = 0; i < spare.size(); ++i) {
    if (tables[i] == nullptr || !is_marked(*tables[i])) continue;
    spare[i] = tables[i];
    tables[i] = nullptr;
  }
}

void Tables::mark(jpeg_decompress_struct& info) {
  mark(info.quant_tbl_ptrs, quantisation_);
  mark(info.dc_huff_tbl_ptrs, dc_);
  mark(info.ac_huff_tbl_ptrs, ac_);
}

void Tables::drop_marked(jpeg_decompress_struct& info) {
  drop_marked(info.quant_tbl_ptrs, quantisation_);
  drop_marked(info.dc_huff_tbl_ptrs, dc_);
  drop_marked(info.ac_huff_tbl_ptrs, ac_);
}

}  // namespace penstock::image
