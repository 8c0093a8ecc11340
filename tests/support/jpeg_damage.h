// JPEGs that should be refused, and libjpeg-turbo's own verdict on a file.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/jpeg/padding.h"
#include "pipeline/jpeg/turbo/warnings.h"
#include "tests/support/images.h"

namespace penstock::test {

/// Returns the offset of the first marker 0xff `marker`, searched segment by segment; 0 if there is
/// none.
inline std::size_t find_marker(std::span<const std::byte> jpeg, int marker) {
  std::size_t at = 2;
  while (at + 4 <= jpeg.size() && jpeg[at] == std::byte{0xff}) {
    if (jpeg[at + 1] == static_cast<std::byte>(marker)) return at;
    if (jpeg[at + 1] == std::byte{0xda}) return 0;
    at += 2 + (std::to_integer<std::size_t>(jpeg[at + 2]) << 8 |
               std::to_integer<std::size_t>(jpeg[at + 3]));
  }
  return 0;
}

/// Writes other dimensions into the frame header.
inline std::vector<std::byte> with_dimensions(std::vector<std::byte> jpeg, int height, int width) {
  std::size_t frame = find_marker(jpeg, 0xc0);
  if (frame == 0) frame = find_marker(jpeg, 0xc2);
  jpeg[frame + 5] = static_cast<std::byte>(height >> 8);
  jpeg[frame + 6] = static_cast<std::byte>(height & 255);
  jpeg[frame + 7] = static_cast<std::byte>(width >> 8);
  jpeg[frame + 8] = static_cast<std::byte>(width & 255);
  return jpeg;
}

/// Returns a valid progressive JPEG with `1 + bands x (1 + refinements)` scans of gray.
inline std::vector<std::byte> make_many_scans(int bands, int refinements) {
  const Pixels image = make_pixels(16, 16, 1);
  std::vector<jpeg_scan_info> scans;
  const auto add = [&](int first, int last, int high, int low) {
    jpeg_scan_info scan{};
    scan.comps_in_scan = 1;
    scan.Ss = first;
    scan.Se = last;
    scan.Ah = high;
    scan.Al = low;
    scans.push_back(scan);
  };
  add(0, 0, 0, 0);
  for (int band = 1; band <= bands; ++band) {
    add(band, band, 0, refinements);
    for (int level = refinements; level > 0; --level) add(band, band, level, level - 1);
  }
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = 16;
  info.image_height = 16;
  info.input_components = 1;
  info.in_color_space = JCS_GRAYSCALE;
  jpeg_set_defaults(&info);
  info.scan_info = scans.data();
  info.num_scans = static_cast<int>(scans.size());
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(image.at(static_cast<int>(info.next_scanline), 0));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const auto* bytes = reinterpret_cast<const std::byte*>(memory);
  std::vector<std::byte> result(bytes, bytes + size);
  std::free(memory);
  return result;
}

/// `harmless`: with warnings that lose no coefficient. `warned`: with others.
enum class Verdict { good, harmless, warned, refused };

struct PlainDecode {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  std::jmp_buf failed;
  const JOCTET* file = nullptr;
  long in_header = 0;  ///< warnings
  bool lossy = false;
};

/// Notes that a file of several scans lacks coefficients, once they are read.
inline void judge_scans(PlainDecode& decode) {
  decode.in_header = decode.errors.num_warnings;
  if (decode.errors.num_warnings > 0 && jpeg_has_multiple_scans(&decode.info) == TRUE &&
      !image::is_complete(decode.info))
    decode.lossy = true;
}

/// Returns the verdict of libjpeg-turbo with its defaults on a file that is read to its end.
inline Verdict plain_verdict(std::span<const std::byte> bytes, JSAMPROW row) {
  PlainDecode decode;
  decode.info.err = jpeg_std_error(&decode.errors);
  decode.info.client_data = &decode;
  decode.errors.error_exit = [](j_common_ptr info) {
    std::longjmp(static_cast<PlainDecode*>(info->client_data)->failed, 1);
  };
  decode.errors.emit_message = [](j_common_ptr info, int level) {
    if (level >= 0) return;
    ++info->err->num_warnings;
    auto& plain = *static_cast<PlainDecode*>(info->client_data);
    plain.lossy =
        plain.lossy || !image::is_harmless(*reinterpret_cast<j_decompress_ptr>(info), plain.file);
  };
  if (setjmp(decode.failed) != 0) {
    jpeg_destroy_decompress(&decode.info);
    return Verdict::refused;
  }
  decode.file = reinterpret_cast<const JOCTET*>(bytes.data());
  jpeg_create_decompress(&decode.info);
  jpeg_mem_src(&decode.info, reinterpret_cast<const unsigned char*>(bytes.data()),
               static_cast<unsigned long>(bytes.size()));
  jpeg_read_header(&decode.info, TRUE);
  jpeg_start_decompress(&decode.info);
  judge_scans(decode);
  while (decode.info.output_scanline < decode.info.output_height) {
    jpeg_read_scanlines(&decode.info, &row, 1);
  }
  jpeg_finish_decompress(&decode.info);
  const bool clean = decode.errors.num_warnings == 0;
  if (decode.errors.num_warnings > decode.in_header && !jpeg::is_padded(bytes)) decode.lossy = true;
  jpeg_destroy_decompress(&decode.info);
  if (decode.lossy) return Verdict::warned;
  return clean ? Verdict::good : Verdict::harmless;
}

}  // namespace penstock::test
