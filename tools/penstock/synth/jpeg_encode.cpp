#include "tools/penstock/synth/jpeg_encode.h"

#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include <jpeglib.h>

#include <penstock/error.h>

namespace penstock::tool {
namespace {

struct Failure {
  jpeg_error_mgr manager;
  std::jmp_buf escape;
  char message[JMSG_LENGTH_MAX];
};

void fail(j_common_ptr info) {
  auto* failure = reinterpret_cast<Failure*>(info->err);
  info->err->format_message(info, failure->message);
  std::longjmp(failure->escape, 1);
}

struct Encoded {
  unsigned char* data = nullptr;
  unsigned long size = 0;
};

// Has no objects with destructors, because libjpeg leaves it by longjmp.
bool compress(const Picture& picture, const JpegOptions& options, Encoded& out, Failure& failure) {
  jpeg_compress_struct info;
  info.err = jpeg_std_error(&failure.manager);
  failure.manager.error_exit = fail;
  if (setjmp(failure.escape) != 0) {
    jpeg_destroy_compress(&info);
    return false;
  }
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &out.data, &out.size);
  info.image_width = static_cast<JDIMENSION>(picture.width);
  info.image_height = static_cast<JDIMENSION>(picture.height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  if (options.gray) jpeg_set_colorspace(&info, JCS_GRAYSCALE);
  jpeg_set_quality(&info, options.quality, TRUE);
  if (options.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    const std::size_t row = std::size_t{info.next_scanline} * info.image_width * 3;
    auto* line = const_cast<JSAMPROW>(picture.rgb.data() + row);
    jpeg_write_scanlines(&info, &line, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  return true;
}

void put_bytes(std::string& out, std::initializer_list<int> bytes) {
  for (const int byte : bytes) out += static_cast<char>(byte);
}

/// Writes a Huffman table whose only symbol has the code 0.
void put_table(std::string& out, int id, int symbol) {
  put_bytes(out, {0xff, 0xc4, 0, 20, id, 1});
  out.append(15, '\0');
  put_bytes(out, {symbol});
}

}  // namespace

std::string encode_jpeg(const Picture& picture, const JpegOptions& options) {
  Encoded encoded;
  Failure failure{};
  const bool ok = compress(picture, options, encoded, failure);
  const std::unique_ptr<unsigned char, void (*)(void*)> owner(encoded.data, std::free);
  if (!ok) throw Error(ErrorCode::internal, std::string("can't encode a JPEG: ") + failure.message);
  return {reinterpret_cast<const char*>(encoded.data), encoded.size};
}

std::string many_scans_jpeg(int height, int width) {
  constexpr int kEndOfBand14 = 0xe0;  // a run of 2^14 + 14 bits' value blocks without coefficients
  constexpr int kPrecision = 13;
  std::string out;
  put_bytes(out, {0xff, 0xd8, 0xff, 0xdb, 0, 67, 0});
  out.append(64, '\x10');
  put_bytes(out, {0xff, 0xc2, 0, 17, 8, height >> 8, height & 255, width >> 8, width & 255, 3});
  for (int component = 1; component <= 3; ++component) put_bytes(out, {component, 0x11, 0});
  put_table(out, 0x00, 0);
  put_table(out, 0x10, kEndOfBand14);
  put_bytes(out, {0xff, 0xda, 0, 12, 3, 1, 0, 2, 0, 3, 0, 0, 0, 0});
  const std::size_t blocks =
      3 * static_cast<std::size_t>((height + 7) / 8) * static_cast<std::size_t>((width + 7) / 8);
  out.append(blocks / 8, '\0');  // a difference of 0, one bit each
  if (blocks % 8 != 0) out += static_cast<char>(0xff >> (blocks % 8));
  for (int component = 1; component <= 3; ++component) {
    for (int coefficient = 1; coefficient <= 63; ++coefficient) {
      for (int low = kPrecision; low >= 0; --low) {
        const int high = low == kPrecision ? 0 : low + 1;
        put_bytes(out,
                  {0xff, 0xda, 0, 8, 1, component, 0, coefficient, coefficient, high << 4 | low});
        // Code 0, then fourteen bits that extend the run to 32,767 blocks, and one bit of padding.
        put_bytes(out, {0x7f, 0xff, 0});
      }
    }
  }
  put_bytes(out, {0xff, 0xd9});
  return out;
}

}  // namespace penstock::tool
