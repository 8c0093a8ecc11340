#include "bench/region_loop.h"

#include <algorithm>
#include <cstdio>
#include <vector>

// After <cstdio>, which it needs.
#include <jpeglib.h>

#include "pipeline/work/image/augment.h"
#include "pipeline/work/image/chain.h"

namespace penstock::bench {

struct RegionLoop::State {
  int size = 0;
  RandomResizedCropOptions options;
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  std::vector<unsigned char> row;
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

std::size_t RegionLoop::decode(std::span<const std::byte> jpeg, Rng rng, std::uint64_t ordinal) {
  jpeg_decompress_struct& info = state_->info;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(jpeg.data()),
               static_cast<unsigned long>(jpeg.size()));
  jpeg_read_header(&info, TRUE);
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
  if (info.jpeg_color_space != JCS_GRAYSCALE) info.out_color_space = JCS_RGB;
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
  // The library writes rows that are aligned to 32 bytes past the cache, which is slower.
  state_->row.resize(std::size_t{width} * 4 + 128);
  const auto address = reinterpret_cast<std::uintptr_t>(state_->row.data());
  unsigned char* row = state_->row.data() + (64 - address % 64) + 8;
  while (info.output_scanline < bottom) jpeg_read_scanlines(&info, &row, 1);
  jpeg_abort_decompress(&info);
  return std::size_t{right - left} * (bottom - top);
}

}  // namespace penstock::bench
