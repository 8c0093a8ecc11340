// Large files for measuring memory. They are written row by row, so that writing takes little
// memory.
#pragma once

#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

// After <cstdio>, which these headers need.
#include <jpeglib.h>
#include <png.h>

namespace penstock::test {

/// Fills a row of a picture that compresses a little and is quick to compute.
inline void fill_row(std::vector<std::uint8_t>& row, std::uint32_t y) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    const auto x = static_cast<std::uint32_t>(i / 3);
    row[i] = static_cast<std::uint8_t>((x * y >> 9) + (x >> 3) * (i % 3 + 1) + (y >> 2));
  }
}

class OutputFile {
 public:
  explicit OutputFile(const std::string& path) : file_(std::fopen(path.c_str(), "wb")) {
    if (file_ == nullptr) throw std::runtime_error("can't write " + path);
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile() { std::fclose(file_); }
  std::FILE* get() const { return file_; }

 private:
  std::FILE* file_;
};

inline void write_large_jpeg(const std::string& path, std::uint32_t side, bool progressive,
                             int factor) {
  const OutputFile file(path);
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  jpeg_stdio_dest(&info, file.get());
  info.image_width = side;
  info.image_height = side;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 60, TRUE);
  info.comp_info[0].h_samp_factor = factor;
  info.comp_info[0].v_samp_factor = factor;
  if (progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  std::vector<std::uint8_t> row(std::size_t{3} * side);
  for (std::uint32_t y = 0; y < side; ++y) {
    fill_row(row, y);
    JSAMPROW pointer = row.data();
    jpeg_write_scanlines(&info, &pointer, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
}

inline void write_large_png(const std::string& path, std::uint32_t side, bool interlaced) {
  const OutputFile file(path);
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_init_io(png, file.get());
  png_set_compression_level(png, 1);
  png_set_filter(png, 0, PNG_FILTER_NONE);
  png_set_IHDR(png, info, side, side, 8, PNG_COLOR_TYPE_RGB,
               interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  std::vector<std::uint8_t> row(std::size_t{3} * side);
  const int passes = interlaced ? png_set_interlace_handling(png) : 1;
  for (int pass = 0; pass < passes; ++pass) {
    for (std::uint32_t y = 0; y < side; ++y) {
      fill_row(row, y);
      png_write_row(png, row.data());
    }
  }
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
}

}  // namespace penstock::test
