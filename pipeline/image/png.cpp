#include "pipeline/image/png.h"

#include <algorithm>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <png.h>

#include "pipeline/codec/color.h"
#include "pipeline/codec/exif.h"
#include "pipeline/image/png_warnings.h"

namespace penstock::image {

namespace {

constexpr std::size_t kMessageSize = 200;

/// The state of libpng and of this decoder. As in the JPEG decoder, all code that may longjmp lies
/// in functions that own nothing.
struct Session {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::byte> left;
  std::jmp_buf failed;
  char message[kMessageSize] = {};
  char warning[kMessageSize] = {};  // the first one that was no error
  bool out_of_memory = false;
  bool strict = true;
  bool strict_images = false;
};

void on_error(png_structp png, png_const_charp message) {
  Session& session = *static_cast<Session*>(png_get_error_ptr(png));
  std::strncpy(session.message, message, kMessageSize - 1);
  std::longjmp(session.failed, 1);
}

void on_warning(png_structp png, png_const_charp message) {
  Session& session = *static_cast<Session*>(png_get_error_ptr(png));
  if (session.strict && (session.strict_images || !is_harmless(png, message)))
    on_error(png, message);
  if (session.warning[0] == 0) std::strncpy(session.warning, message, kMessageSize - 1);
}

png_voidp on_malloc(png_structp png, png_alloc_size_t size) {
  void* const memory = std::malloc(size);
  if (memory == nullptr) static_cast<Session*>(png_get_mem_ptr(png))->out_of_memory = true;
  return memory;
}

void on_free(png_structp, png_voidp memory) {
  std::free(memory);
}

void on_read(png_structp png, png_bytep out, std::size_t size) {
  Session& session = *static_cast<Session*>(png_get_io_ptr(png));
  if (session.left.size() < size) png_error(png, "truncated");
  std::memcpy(out, session.left.data(), size);
  session.left = session.left.subspan(size);
}

bool read_header(Session& session, const Limits& limits) {
  if (setjmp(session.failed) != 0) return false;  // making the structs may warn, too
  session.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &session, on_error, on_warning,
                                         &session, on_malloc, on_free);
  if (session.png == nullptr) return false;
  session.info = png_create_info_struct(session.png);
  if (session.info == nullptr) png_error(session.png, "out of memory");
  // Dimensions are checked against max_pixels, which libpng does not know.
  png_set_user_limits(session.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_chunk_malloc_max(session.png, limits.max_codec_bytes);
  png_set_chunk_cache_max(session.png, 16);
  // Metadata is not parsed, so it can't make an image fail or cost memory.
  png_set_keep_unknown_chunks(session.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_read_fn(session.png, &session, on_read);
  png_read_info(session.png, session.info);
  return true;
}

bool start(Session& session) {
  if (setjmp(session.failed) != 0) return false;
  const int color = png_get_color_type(session.png, session.info);
  const int depth = png_get_bit_depth(session.png, session.info);
  if (depth == 16) png_set_strip_16(session.png);
  if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(session.png);
  if (color == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(session.png);
  png_set_strip_alpha(session.png);  // includes the alpha that tRNS would add
  png_set_interlace_handling(session.png);
  png_read_update_info(session.png, session.info);
  return true;
}

bool read_row(Session& session, png_bytep row) {
  if (setjmp(session.failed) != 0) return false;
  png_read_row(session.png, row, nullptr);
  return true;
}

bool read_rows(Session& session, png_bytepp rows) {
  if (setjmp(session.failed) != 0) return false;
  png_read_image(session.png, rows);
  return true;
}

bool finish(Session& session) {
  if (setjmp(session.failed) != 0) return false;
  png_read_end(session.png, nullptr);
  return true;
}

class PngDecoder final : public Decoder {
 public:
  void decode(std::span<DecodeJob> jobs, const DecodeOptions& options) noexcept override {
    for (DecodeJob& job : jobs) {
      Session session;
      try {
        decode_one(session, job, options);
        job.warning = session.warning;
        job.status = Status();
      } catch (...) {
        job.status = status_from_current_exception();
      }
      // libpng has no error code for this, and may have continued without the memory.
      if (session.out_of_memory) job.status = Status::out_of_memory();
      png_destroy_read_struct(&session.png, &session.info, nullptr);
      if (pixels_.size() > kUnaskedBytes) pixels_ = std::vector<std::uint8_t>();
      if (row_pointers_.size() * sizeof(png_bytep) > kUnaskedBytes / 2)
        row_pointers_ = std::vector<png_bytep>();
    }
  }

 private:
  static void require(bool ok, const Session& session) {
    if (!ok) throw Error(ErrorCode::data_loss, std::string("PNG: ") + session.message);
  }

  void decode_one(Session& session, DecodeJob& job, const DecodeOptions& options) {
    session.left = job.bytes;
    session.strict = options.strict;
    session.strict_images = options.strict_images;
    require(read_header(session, options.limits), session);
    const std::size_t height = png_get_image_height(session.png, session.info);
    const std::size_t width = png_get_image_width(session.png, session.info);
    check_pixels(width, height, options.limits);
    const bool color = (png_get_color_type(session.png, session.info) & PNG_COLOR_MASK_COLOR) != 0;

    ImageInfo image;
    image.size = {static_cast<int>(height), static_cast<int>(width)};
    image.channels = color ? options.channels : 1;
    image.scalable = false;
    if (options.orient) image.orientation = png_orientation(job.bytes);
    const DecodePlan plan = job.sink->plan(image);
    if (plan.region.empty()) return;
    const bool whole = check_region(plan.region, image.size);

    const bool interlaced = png_get_interlace_type(session.png, session.info) != PNG_INTERLACE_NONE;
    require(start(session), session);
    const std::size_t channels = color ? 3 : 1;
    const std::size_t stride = width * channels + kRowPadding;
    const std::size_t rows = interlaced ? height : 1;
    const std::size_t bytes = (stride + sizeof(png_bytep)) * rows + width * kLibraryBytesPerColumn;
    check_memory(bytes, options.limits);
    if (bytes > kUnaskedBytes) job.sink->make_room(bytes);
    if (pixels_.size() < stride * rows) pixels_.resize(stride * rows);
    if (interlaced) {
      row_pointers_.resize(height);
      for (std::size_t y = 0; y < height; ++y) row_pointers_[y] = pixels_.data() + y * stride;
      require(read_rows(session, row_pointers_.data()), session);
    }
    const auto top = static_cast<std::size_t>(plan.region.top);
    const auto bottom = top + static_cast<std::size_t>(plan.region.height);
    for (std::size_t y = 0; y < bottom; ++y) {
      std::uint8_t* row = pixels_.data() + (interlaced ? y * stride : 0);
      if (!interlaced) require(read_row(session, row), session);
      if (y < top) continue;
      std::uint8_t* first = row + static_cast<std::size_t>(plan.region.left) * channels;
      if (color && options.channels == 1) {
        rgb_to_gray(first, first, static_cast<std::size_t>(plan.region.width));
      }
      job.sink->rows(first, stride, 1);
    }
    if (whole) require(finish(session), session);
  }

  static void check_memory(std::size_t bytes, const Limits& limits) {
    if (bytes <= limits.max_codec_bytes) return;
    throw Error(ErrorCode::out_of_range,
                "PNG: needs " + std::to_string(bytes) + " bytes of working memory, more than " +
                    std::to_string(limits.max_codec_bytes) + " (max_codec_bytes)");
  }

  /// libpng keeps two rows, at up to eight bytes a pixel.
  static constexpr std::size_t kLibraryBytesPerColumn = 16;

  std::vector<std::uint8_t> pixels_;
  std::vector<png_bytep> row_pointers_;
};

}  // namespace

std::unique_ptr<Decoder> make_png_decoder() {
  return std::make_unique<PngDecoder>();
}

}  // namespace penstock::image
