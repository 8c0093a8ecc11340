#include "pipeline/jpeg/idct.h"

#include "pipeline/jpeg/idct_functor.h"

namespace penstock::jpeg {

namespace {

/// True if the rows below the first are zero. Then the library does not saturate the first pass.
bool only_first_row(const std::int16_t* block, bool without_fourth) noexcept {
  for (int i = 8; i < 64; ++i) {
    if (without_fourth && i / 8 == 4) continue;
    if (block[i] != 0) return false;
  }
  return true;
}

}  // namespace

void transform_plainly(const std::int16_t* coefficients, const std::int16_t* quantisation, int side,
                       std::uint8_t* target, std::size_t stride) noexcept {
  if (side == 1) {
    *target = plain::only_sample(coefficients[0], quantisation[0]);
    return;
  }
  std::int16_t block[64];
  for (int i = 0; i < 64; ++i) block[i] = plain::wrap(coefficients[i] * quantisation[i]);
  if (side == 8) {
    if (only_first_row(coefficients, false)) {
      for (int i = 0; i < 64; ++i) block[i] = i < 8 ? plain::flat(block[i]) : block[i % 8];
    } else {
      for (std::size_t x = 0; x < 8; ++x) plain::transform8<plain::kFirst8>(block + x, 8);
    }
    for (std::size_t y = 0; y < 8; ++y) {
      plain::transform8<plain::kSecond8>(block + 8 * y, 1);
      for (std::size_t x = 0; x < 8; ++x) target[y * stride + x] = plain::sample(block[8 * y + x]);
    }
  } else if (side == 4) {
    std::int16_t half[4 * 8];
    if (only_first_row(coefficients, true)) {
      for (int i = 0; i < 32; ++i) half[i] = plain::flat(block[i % 8]);
    } else {
      for (std::size_t x = 0; x < 8; ++x)
        plain::transform4<plain::kFirst4>(block + x, 8, half + x, 8);
    }
    for (std::size_t y = 0; y < 4; ++y) {
      std::int16_t row[4];
      plain::transform4<plain::kSecond4>(half + 8 * y, 1, row, 1);
      for (std::size_t x = 0; x < 4; ++x) target[y * stride + x] = plain::sample(row[x]);
    }
  } else {
    std::int32_t first[2] = {};
    std::int16_t rest[2][8] = {};
    for (std::size_t x = 0; x < 8; ++x) {
      if (x == 2 || x == 4 || x == 6) continue;
      std::int32_t both[2];
      plain::halve_twice(block + x, 8, both);
      for (std::size_t y = 0; y < 2; ++y) {
        if (x == 0) first[y] = both[y];
        rest[y][x] = plain::saturate(both[y]);
      }
    }
    for (std::size_t y = 0; y < 2; ++y) plain::finish_two(first[y], rest[y], target + y * stride);
  }
}

}  // namespace penstock::jpeg
