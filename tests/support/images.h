// Images for tests: synthetic ones, encoders, and plain decoders. Header only, so that tests link
// few layers.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

// After <cstdio>, which this header needs.
#include <jpeglib.h>
#include <png.h>

#include <penstock/rng.h>

namespace penstock::test {

struct Pixels {
  int height = 0;
  int width = 0;
  int channels = 3;
  std::vector<std::uint8_t> values;  // interleaved

  const std::uint8_t* at(int y, int x) const {
    return values.data() + (static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
                            static_cast<std::size_t>(x)) *
                               static_cast<std::size_t>(channels);
  }
};

/// Returns an image of waves with edges and noise. It has all frequencies, and no two regions are
/// alike.
inline Pixels make_pixels(int height, int width, int channels, std::uint64_t seed = 1) {
  Pixels image{height, width, channels, {}};
  image.values.reserve(static_cast<std::size_t>(height) * width * channels);
  Rng rng(seed, 0, 0);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        const double wave = 60 * std::sin(0.13 * x * (c + 1)) + 50 * std::cos(0.09 * y + c);
        const double edge = ((x / 7 + y / 5 + c) % 3) * 20.0;
        const double noise = rng.uniform(-15, 15);
        const double value = 110 + wave + edge + noise;
        image.values.push_back(static_cast<std::uint8_t>(std::fmin(std::fmax(value, 0), 255)));
      }
    }
  }
  return image;
}

/// Returns gray pixels as RGB.
inline Pixels as_rgb(const Pixels& gray) {
  Pixels image{gray.height, gray.width, 3, {}};
  for (const std::uint8_t value : gray.values) image.values.insert(image.values.end(), 3, value);
  return image;
}

struct JpegOptions {
  int quality = 90;
  int horizontal = 1;  ///< sampling factors of the first component (and, in CMYK, of black)
  int vertical = 1;
  bool progressive = false;
  bool arithmetic = false;
  int restart_interval = 0;  ///< in MCUs
  bool ycck = false;         ///< of four channels: YCCK, not CMYK
  bool rgb = false;          ///< of three channels: no conversion to YCbCr
  /// With three components: the horizontal and vertical factor of each; zeros: as given above.
  std::array<int, 6> factors{};
  bool optimised = false;  ///< Huffman tables for this image
  bool separate = false;   ///< a scan for each component
};

/// Encodes 1 (gray), 3 (RGB) or 4 (CMYK) channels.
inline std::vector<std::byte> make_jpeg(const Pixels& image, const JpegOptions& options = {}) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = image.channels;
  info.in_color_space =
      image.channels == 1 ? JCS_GRAYSCALE : (image.channels == 3 ? JCS_RGB : JCS_CMYK);
  jpeg_set_defaults(&info);
  if (options.ycck) jpeg_set_colorspace(&info, JCS_YCCK);
  if (options.rgb) jpeg_set_colorspace(&info, JCS_RGB);
  jpeg_set_quality(&info, options.quality, TRUE);
  if (options.progressive) jpeg_simple_progression(&info);
  info.arith_code = options.arithmetic ? TRUE : FALSE;
  info.optimize_coding = options.optimised ? TRUE : FALSE;
  std::vector<jpeg_scan_info> scans;
  for (int c = 0; c < info.num_components && options.separate; ++c)
    scans.push_back({1, {c, 0, 0, 0}, 0, DCTSIZE2 - 1, 0, 0});
  if (options.separate) {
    info.scan_info = scans.data();
    info.num_scans = static_cast<int>(scans.size());
  }
  info.restart_interval = static_cast<unsigned>(options.restart_interval);
  if (image.channels > 1) {
    info.comp_info[0].h_samp_factor = options.horizontal;
    info.comp_info[0].v_samp_factor = options.vertical;
    if (image.channels == 4) {
      info.comp_info[3].h_samp_factor = options.horizontal;
      info.comp_info[3].v_samp_factor = options.vertical;
    }
  }
  for (std::size_t i = 0; i < 6 && options.factors[0] > 0; ++i) {
    jpeg_component_info& component = info.comp_info[i / 2];
    (i % 2 == 0 ? component.h_samp_factor : component.v_samp_factor) = options.factors[i];
  }
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

/// Decodes a whole image with the library's defaults. The color space is the library's default
/// (RGB, gray or CMYK) unless `space` is given. Exits the process on an error, so only for good
/// files.
inline Pixels decode_jpeg_plainly(std::span<const std::byte> bytes, int denominator = 1,
                                  J_COLOR_SPACE space = JCS_UNKNOWN) {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()),
               static_cast<unsigned long>(bytes.size()));
  jpeg_read_header(&info, TRUE);
  info.scale_num = 1;
  info.scale_denom = static_cast<unsigned>(denominator);
  if (space != JCS_UNKNOWN) info.out_color_space = space;
  jpeg_start_decompress(&info);
  Pixels image{static_cast<int>(info.output_height),
               static_cast<int>(info.output_width),
               info.output_components,
               {}};
  image.values.resize(static_cast<std::size_t>(image.height) * image.width * image.channels);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = const_cast<JSAMPROW>(image.at(static_cast<int>(info.output_scanline), 0));
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return image;
}

inline std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

struct PngOptions {
  int color_type = PNG_COLOR_TYPE_RGB;
  int depth = 8;
  bool interlaced = false;
  bool transparent = false;  ///< writes a tRNS chunk
  std::vector<std::uint8_t> exif{};
};

/// Encodes rows that are packed as the color type and depth say. Palettes have 256 synthetic
/// colors.
inline std::vector<std::byte> make_png(int height, int width, std::span<const std::uint8_t> rows,
                                       const PngOptions& options = {}) {
  std::vector<std::byte> result;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &result,
      [](png_structp writer, png_bytep data, std::size_t size) {
        auto& out = *static_cast<std::vector<std::byte>*>(png_get_io_ptr(writer));
        out.insert(out.end(), reinterpret_cast<std::byte*>(data),
                   reinterpret_cast<std::byte*>(data) + size);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height),
               options.depth, options.color_type,
               options.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_color palette[256];
  png_byte alpha[256];
  if (options.color_type == PNG_COLOR_TYPE_PALETTE) {
    const int colors = 1 << options.depth;
    for (int i = 0; i < colors; ++i) {
      palette[i] = {static_cast<png_byte>(i * 7), static_cast<png_byte>(255 - i),
                    static_cast<png_byte>(i * 31)};
      alpha[i] = static_cast<png_byte>(i);
    }
    png_set_PLTE(png, info, palette, colors);
    if (options.transparent) png_set_tRNS(png, info, alpha, colors, nullptr);
  } else if (options.transparent) {
    png_color_16 color{};
    png_set_tRNS(png, info, nullptr, 1, &color);
  }
  if (!options.exif.empty()) {
    png_set_eXIf_1(png, info, static_cast<png_uint_32>(options.exif.size()),
                   const_cast<png_bytep>(options.exif.data()));
  }
  png_write_info(png, info);
  const std::size_t stride = png_get_rowbytes(png, info);
  if (stride * static_cast<std::size_t>(height) != rows.size()) {
    throw std::invalid_argument("make_png: rows of another size");
  }
  std::vector<png_bytep> pointers;
  for (int y = 0; y < height; ++y) {
    pointers.push_back(const_cast<png_bytep>(rows.data() + static_cast<std::size_t>(y) * stride));
  }
  png_write_image(png, pointers.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return result;
}

}  // namespace penstock::test
