#include "pipeline/sources/synthetic_jpeg.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include <jpeglib.h>

#include <penstock/error.h>
#include <penstock/rng.h>

namespace penstock {
namespace {

struct Failure {
  jpeg_error_mgr manager;
  std::jmp_buf jump;
};

[[noreturn]] void fail(j_common_ptr codec) {
  std::longjmp(reinterpret_cast<Failure*>(codec->err)->jump, 1);
}

// Written like C, because an error jumps out of this frame. The caller frees `out`.
bool encode(std::uint8_t* pixels, int height, int width, unsigned char** out,
            unsigned long* size) noexcept {
  jpeg_compress_struct codec;
  Failure failure;
  codec.err = jpeg_std_error(&failure.manager);
  failure.manager.error_exit = fail;
  if (setjmp(failure.jump) != 0) {
    jpeg_destroy_compress(&codec);
    return false;
  }
  jpeg_create_compress(&codec);
  jpeg_mem_dest(&codec, out, size);
  codec.image_width = static_cast<JDIMENSION>(width);
  codec.image_height = static_cast<JDIMENSION>(height);
  codec.input_components = 3;
  codec.in_color_space = JCS_RGB;
  jpeg_set_defaults(&codec);
  jpeg_set_quality(&codec, 90, TRUE);
  codec.dct_method = JDCT_ISLOW;
  jpeg_start_compress(&codec, TRUE);
  while (codec.next_scanline < codec.image_height) {
    JSAMPROW row = pixels + std::size_t{codec.next_scanline} * codec.image_width * 3;
    jpeg_write_scanlines(&codec, &row, 1);
  }
  jpeg_finish_compress(&codec);
  jpeg_destroy_compress(&codec);
  return true;
}

// Integers only, so that the pixels do not depend on the machine.
std::vector<std::uint8_t> paint(int height, int width, std::uint64_t seed) {
  Rng rng(seed, 0, 0);
  std::array<int, 3> base;
  std::array<int, 3> across;
  std::array<int, 3> down;
  for (std::size_t c = 0; c < 3; ++c) {
    base[c] = static_cast<int>(rng.below(160)) + 48;
    across[c] = static_cast<int>(rng.below(161)) - 80;
    down[c] = static_cast<int>(rng.below(161)) - 80;
  }
  struct Disc {
    int x, y, radius;
    std::array<int, 3> colour;
  };
  std::array<Disc, 6> discs;
  const auto side = static_cast<std::uint64_t>(std::min(height, width));
  for (Disc& disc : discs) {
    disc.x = static_cast<int>(rng.below(static_cast<std::uint64_t>(width)));
    disc.y = static_cast<int>(rng.below(static_cast<std::uint64_t>(height)));
    disc.radius = static_cast<int>(rng.below(side / 3 + 1)) + 1;
    for (int& colour : disc.colour) colour = static_cast<int>(rng.below(121)) - 60;
  }
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(height) * width * 3);
  std::uint64_t grain = mix64(seed + 1);
  std::uint8_t* out = pixels.data();
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      std::array<int, 3> colour = base;
      for (std::size_t c = 0; c < 3; ++c) {
        colour[c] += across[c] * x / width + down[c] * y / height;
      }
      for (const Disc& disc : discs) {
        const std::int64_t dx = x - disc.x;
        const std::int64_t dy = y - disc.y;
        if (dx * dx + dy * dy > std::int64_t{disc.radius} * disc.radius) continue;
        for (std::size_t c = 0; c < 3; ++c) colour[c] += disc.colour[c];
      }
      grain = grain * 6364136223846793005ULL + 1442695040888963407ULL;
      const int noise = static_cast<int>(grain >> 60) + static_cast<int>(grain >> 56 & 15) - 15;
      for (const int value : colour) {
        *out++ = static_cast<std::uint8_t>(std::clamp(value + noise, 0, 255));
      }
    }
  }
  return pixels;
}

struct Free {
  void operator()(unsigned char* memory) const noexcept { std::free(memory); }
};

}  // namespace

std::string make_synthetic_jpeg(int height, int width, std::uint64_t seed) {
  std::vector<std::uint8_t> pixels = paint(height, width, seed);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  const bool made = encode(pixels.data(), height, width, &memory, &size);
  const std::unique_ptr<unsigned char, Free> owner(memory);
  if (!made) throw Error(ErrorCode::resource_exhausted, "can't make a synthetic JPEG");
  return {reinterpret_cast<const char*>(memory), size};
}

}  // namespace penstock
