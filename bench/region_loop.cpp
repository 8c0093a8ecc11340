#include "bench/region_loop.h"

#include <algorithm>
#include <cstdio>
#include <vector>

// After <cstdio>, which it needs.
#include <jpeglib.h>

#include "pipeline/image/augment.h"
#include "pipeline/image/chain.h"

namespace penstock::bench {

struct RegionLoop::State {
  int size = 0;
  RandomResizedCropOptions options;
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  std::vector<unsigned char> row;

  void read_header(std::span<const std::byte> jpeg);
  unsigned char* row_of(std::size_t bytes);
};

RegionLoop::RegionLoop(int size, RandomResizedCropOptions options)
    : state_(std::make_unique<State>()) {
  state_->size = size;
  state_->options = options;
  state_->info.err = jpeg_std_error(&state_->errors);
  jpeg_create_decompress(&state_->info);
}

RegionLoop::~RegionLoop() {
  jpeg_destroy_decompress(&state_->info);
}

unsigned char* RegionLoop::State::row_of(std::size_t bytes) {
  // The library writes rows that are aligned to its vectors past the cache, which is slower.
  constexpr std::size_t kAlignment = 64;
  row.resize(bytes + 2 * kAlignment);
  const auto address = reinterpret_cast<std::uintptr_t>(row.data());
  return row.data() + (kAlignment - address % kAlignment) + 8;
}

void RegionLoop::State::read_header(std::span<const std::byte> jpeg) {
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(jpeg.data()),
               static_cast<unsigned long>(jpeg.size()));
  jpeg_read_header(&info, TRUE);
  if (info.jpeg_color_space != JCS_GRAYSCALE) info.out_color_space = JCS_RGB;
}

std::size_t RegionLoop::decode_whole(std::span<const std::byte> jpeg, int side) {
  jpeg_decompress_struct& info = state_->info;
  state_->read_header(jpeg);
  const unsigned shorter = std::min(info.image_width, info.image_height);
  info.scale_num = 1;
  info.scale_denom = 1;
  while (side > 0 && info.scale_denom < 8 &&
         shorter >= 2 * info.scale_denom * static_cast<unsigned>(side)) {
    info.scale_denom *= 2;
  }
  jpeg_start_decompress(&info);
  unsigned char* row = state_->row_of(std::size_t{info.output_width} * 4);
  while (info.output_scanline < info.output_height) jpeg_read_scanlines(&info, &row, 1);
  jpeg_abort_decompress(&info);
  return std::size_t{info.output_width} * info.output_height;
}

std::size_t RegionLoop::decode(std::span<const std::byte> jpeg, Rng rng, std::uint64_t ordinal) {
  jpeg_decompress_struct& info = state_->info;
  state_->read_header(jpeg);
  constexpr std::size_t kKind = ImageOps::Step::Any(RandomResizedCropStep()).index();
  Rng step = image::StepRandom(rng, ordinal).of(kKind, 0);
  const image::Size whole{static_cast<int>(info.image_height), static_cast<int>(info.image_width)};
  const image::Rect crop = image::choose_random_resized_crop(whole, state_->options, step);
  unsigned scale = 1;
  const auto side = static_cast<unsigned>(state_->size);
  while (scale < 8 && static_cast<unsigned>(crop.height) >= 2 * scale * side &&
         static_cast<unsigned>(crop.width) >= 2 * scale * side) {
    scale *= 2;
  }
  info.scale_num = 1;
  info.scale_denom = scale;
  jpeg_start_decompress(&info);
  const JDIMENSION top = static_cast<JDIMENSION>(crop.top) / scale;
  const JDIMENSION left = static_cast<JDIMENSION>(crop.left) / scale;
  const JDIMENSION bottom = (static_cast<JDIMENSION>(crop.top + crop.height) + scale - 1) / scale;
  const JDIMENSION right = (static_cast<JDIMENSION>(crop.left + crop.width) + scale - 1) / scale;
  JDIMENSION first = left > 0 ? left - 1 : 0;
  JDIMENSION width = std::min(right + 1, info.output_width) - first;
  jpeg_crop_scanline(&info, &first, &width);
  if (top > 0) jpeg_skip_scanlines(&info, top);
  unsigned char* row = state_->row_of(std::size_t{width} * 4);
  while (info.output_scanline < bottom) jpeg_read_scanlines(&info, &row, 1);
  jpeg_abort_decompress(&info);
  return std::size_t{right - left} * (bottom - top);
}

void read_coefficients(std::span<const std::byte> jpeg) {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(jpeg.data()),
               static_cast<unsigned long>(jpeg.size()));
  jpeg_read_header(&info, TRUE);
  jpeg_read_coefficients(&info);
  jpeg_destroy_decompress(&info);
}

}  // namespace penstock::bench
