#include "pipeline/image/dump.h"

#include <algorithm>
#include <cmath>
#include <csetjmp>

#include <png.h>

#include <penstock/durable_file.h>

namespace penstock::image {

namespace {

[[noreturn]] void refuse(const Tensor& tensor) {
  throw Error(ErrorCode::invalid_argument,
              "not an image of 1 or 3 channels: " + std::string(name_of(tensor.dtype())) + " " +
                  tensor.shape().to_string());
}

bool is_channels(std::int64_t extent) {
  return extent == 1 || extent == 3;
}

bool is_pixels(const Tensor& tensor) {
  return tensor.dtype() == DType::u8 && tensor.rank() == 3 && is_channels(tensor.dim(2)) &&
         tensor.dim(0) > 0 && tensor.dim(1) > 0;
}

float value_at(const Tensor& tensor, std::size_t position) {
  const std::byte* data = tensor.data();
  switch (tensor.dtype()) {
    case DType::u8:
      return static_cast<float>(std::to_integer<int>(data[position]));
    case DType::f16:
      return float_from_half(reinterpret_cast<const Half*>(data)[position]);
    case DType::bf16:
      return float_from_bfloat16(reinterpret_cast<const BFloat16*>(data)[position]);
    case DType::f32:
      return reinterpret_cast<const float*>(data)[position];
    default:
      refuse(tensor);
  }
}

void on_write(png_structp png, png_bytep data, std::size_t size) {
  auto& out = *static_cast<std::vector<std::byte>*>(png_get_io_ptr(png));
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  out.insert(out.end(), bytes, bytes + size);
}

/// Owns nothing, because libpng may jump out of this frame. `out` has room for the whole file.
bool write_png(png_structp png, png_infop info, const Tensor& pixels, std::vector<std::byte>& out) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_write_fn(png, &out, on_write, nullptr);
  const auto height = static_cast<png_uint_32>(pixels.dim(0));
  const auto width = static_cast<png_uint_32>(pixels.dim(1));
  png_set_IHDR(png, info, width, height, 8,
               pixels.dim(2) == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  const auto* row = reinterpret_cast<png_const_bytep>(pixels.data());
  for (png_uint_32 y = 0; y < height; ++y, row += width * pixels.dim(2)) png_write_row(png, row);
  png_write_end(png, nullptr);
  return true;
}

}  // namespace

Tensor to_pixels(const Tensor& image, const NormalizeOptions& normalize) {
  const Tensor whole = image.contiguous() ? image : image.clone();
  if (is_pixels(whole)) return whole;
  if (whole.rank() != 3) refuse(whole);
  const bool planes = is_channels(whole.dim(0)) && !is_channels(whole.dim(2));
  const std::int64_t height = whole.dim(planes ? 1 : 0);
  const std::int64_t width = whole.dim(planes ? 2 : 1);
  const std::int64_t channels = whole.dim(planes ? 0 : 2);
  if (!is_channels(channels)) refuse(whole);
  Tensor pixels = Tensor::allocate(DType::u8, {height, width, channels});
  std::byte* out = pixels.mutable_data();
  for (std::int64_t i = 0; i < height * width; ++i) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::int64_t position = planes ? c * height * width + i : i * channels + c;
      float value = value_at(whole, static_cast<std::size_t>(position));
      if (whole.dtype() != DType::u8) {
        const auto channel = static_cast<std::size_t>(c);
        value = (value * normalize.deviation[channel] + normalize.mean[channel]) * 255;
      }
      const float level = std::isnan(value) ? 0 : std::clamp(std::nearbyint(value), 0.0F, 255.0F);
      *out++ = static_cast<std::byte>(level);
    }
  }
  return pixels;
}

std::vector<std::byte> encode_png(const Tensor& pixels) {
  if (!is_pixels(pixels)) refuse(pixels);
  const Tensor whole = pixels.contiguous() ? pixels : pixels.clone();
  std::vector<std::byte> out;
  // Deflate stores data that it can't shrink, at 5 extra bytes for each block of 16 kB. A filter
  // byte precedes each row.
  out.reserve(whole.nbytes() + whole.nbytes() / 256 + 8 * static_cast<std::size_t>(whole.dim(0)) +
              4096);
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
  const bool ok = info != nullptr && write_png(png, info, whole, out);
  png_destroy_write_struct(&png, &info);
  if (!ok) throw Error(ErrorCode::resource_exhausted, "libpng could not write an image");
  return out;
}

}  // namespace penstock::image

namespace penstock {

void dump_image(const Tensor& pixels, const std::string& path, const NormalizeOptions& normalize) {
  const std::vector<std::byte> bytes = image::encode_png(image::to_pixels(pixels, normalize));
  write_durably(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace penstock
