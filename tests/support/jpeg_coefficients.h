// The data that jpeg_read_coefficients returns for a file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/support/images.h"

namespace penstock::test {

/// The data of a file. If two files have equal data, they hold the same image.
struct Coefficients {
  std::vector<std::int64_t> frame;  ///< dimensions, and the id and factors of each component
  std::vector<std::uint16_t> quantisation;
  std::vector<std::int16_t> blocks;
  std::vector<std::vector<std::byte>> segments;  ///< APPn and COM

  friend bool operator==(const Coefficients&, const Coefficients&) = default;
};

/// Reads the data. Exits the process on an error, so only for good files.
inline Coefficients coefficients_of(std::span<const std::byte> jpeg) {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  for (int i = 0; i < 16; ++i) jpeg_save_markers(&info, JPEG_APP0 + i, 0xffff);
  jpeg_save_markers(&info, JPEG_COM, 0xffff);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(jpeg.data()),
               static_cast<unsigned long>(jpeg.size()));
  jpeg_read_header(&info, TRUE);
  jvirt_barray_ptr* arrays = jpeg_read_coefficients(&info);
  Coefficients all;
  all.frame = {info.image_width, info.image_height, info.num_components, info.jpeg_color_space};
  for (int c = 0; c < info.num_components; ++c) {
    const jpeg_component_info& component = info.comp_info[c];
    for (const int value :
         {component.component_id, component.h_samp_factor, component.v_samp_factor})
      all.frame.push_back(value);
    const UINT16* table = component.quant_table->quantval;
    all.quantisation.insert(all.quantisation.end(), table, table + DCTSIZE2);
    for (JDIMENSION y = 0; y < component.height_in_blocks; ++y) {
      const JBLOCKROW row = info.mem->access_virt_barray(reinterpret_cast<j_common_ptr>(&info),
                                                         arrays[c], y, 1, FALSE)[0];
      all.blocks.insert(all.blocks.end(), &row[0][0],
                        &row[0][0] + std::size_t{component.width_in_blocks} * DCTSIZE2);
    }
  }
  for (jpeg_saved_marker_ptr marker = info.marker_list; marker != nullptr; marker = marker->next) {
    const auto* data = reinterpret_cast<const std::byte*>(marker->data);
    std::vector<std::byte> segment{static_cast<std::byte>(marker->marker)};
    segment.insert(segment.end(), data, data + marker->data_length);
    all.segments.push_back(std::move(segment));
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return all;
}

/// Returns the file with a segment after its first marker.
inline std::vector<std::byte> with_segment(std::vector<std::byte> jpeg, int marker,
                                           std::span<const std::byte> data) {
  const std::size_t size = data.size() + 2;
  std::vector<std::byte> segment{std::byte{0xff}, static_cast<std::byte>(marker),
                                 static_cast<std::byte>(size >> 8),
                                 static_cast<std::byte>(size & 255)};
  segment.insert(segment.end(), data.begin(), data.end());
  jpeg.insert(jpeg.begin() + 2, segment.begin(), segment.end());
  return jpeg;
}

}  // namespace penstock::test
