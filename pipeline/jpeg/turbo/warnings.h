// libjpeg-turbo's warnings that lose nothing of an image. Inline, for tests that judge files
// themselves.
#pragma once

#include <cstddef>
#include <cstdio>

// After <cstdio>, which they need.
#include <jpeglib.h>
// After <jpeglib.h>, which it needs.
#include <jerror.h>

namespace penstock::image {

/// True if two bytes may be what damage left of a segment's marker: its code without the 0xff, or
/// a code that has no segment behind the 0xff.
inline bool was_marker(const JOCTET* bytes) noexcept {
  const int code = bytes[1];
  const bool table = (code >= 0xc0 && code <= 0xcf) || code == 0xda || code == 0xdb ||
                     code == 0xdd || (code >= 0xe0 && code <= 0xef);
  const bool alone = code <= 0x01 || (code >= 0xd0 && code <= 0xd7);
  return table || code == 0xff || (bytes[0] == 0xff && alone);
}

/// True if the skipped bytes [first, end) look like a segment whose marker is damaged: a length
/// that spans the rest of them. They are lost tables, not stray bytes. `first` may be too late by
/// the bytes that the library had read ahead.
inline bool hold_segment(const JOCTET* file, const JOCTET* first, const JOCTET* end) noexcept {
  constexpr std::ptrdiff_t kMarker = 2;
  constexpr std::ptrdiff_t kLength = 2;
  constexpr std::ptrdiff_t kReadAhead = 16;  // eight, each perhaps with a stuffed zero
  const JOCTET* at = file + kMarker;
  if (first - at > kReadAhead) at = first - kReadAhead;
  for (; at <= first + kMarker && end - at > kLength; ++at)
    if ((at[0] << 8 | at[1]) == end - at && was_marker(at - kMarker)) return true;
  return false;
}

/// True for a warning that loses no coefficient: of bytes in front of a marker, where no marker
/// was expected earlier, and of an unknown revision of JFIF. Those bytes may still be damaged
/// coefficients, see `is_padded`. REQUIRES: called by `emit_message`, all warnings before were
/// harmless, and the input is in memory from `file` on. Source: libjpeg's jdmarker.c.
inline bool is_harmless(const jpeg_decompress_struct& info, const JOCTET* file) noexcept {
  if (info.err->msg_code == JWRN_JFIF_MAJOR) return true;
  if (info.err->msg_code != JWRN_EXTRANEOUS_DATA) return false;
  // The library has skipped these bytes and not yet taken the marker behind them.
  const JOCTET* end = info.src->next_input_byte;
  return !hold_segment(file, end - info.err->msg_parm.i[0], end);
}

/// True if the scans gave every coefficient in full. Skipped bytes may have held a scan. REQUIRES:
/// all scans of a file of several scans were read.
inline bool is_complete(const jpeg_decompress_struct& info) noexcept {
  for (int i = 0; i < info.num_components; ++i) {
    if (info.comp_info[i].quant_table == nullptr) return false;  // no scan had the component
    for (int k = 0; info.progressive_mode == TRUE && k < DCTSIZE2; ++k)
      if (info.coef_bits[i][k] != 0) return false;
  }
  return true;
}

}  // namespace penstock::image
