#include "pipeline/work/jpeg/idct.h"

#include <algorithm>

namespace penstock::jpeg {

namespace {

constexpr int kBits = 13;      // of constants
constexpr int kExtraBits = 2;  // that the first pass keeps

constexpr std::int16_t wrap(int value) noexcept {
  return static_cast<std::int16_t>(value);
}
constexpr std::int16_t saturate(std::int32_t value) noexcept {
  return static_cast<std::int16_t>(std::clamp(value, -32768, 32767));
}
/// The library's sums wrap.
constexpr std::int32_t add(std::int32_t a, std::int32_t b) noexcept {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
}
constexpr std::int32_t subtract(std::int32_t a, std::int32_t b) noexcept {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) - static_cast<std::uint32_t>(b));
}
constexpr std::int32_t mix(std::int16_t a, int by_a, std::int16_t b, int by_b) noexcept {
  return add(a * by_a, b * by_b);
}
template <int kShift>
constexpr std::int16_t descale(std::int32_t value) noexcept {
  return saturate(add(value, 1 << (kShift - 1)) >> kShift);
}
constexpr std::uint8_t sample(std::int16_t value) noexcept {
  return static_cast<std::uint8_t>(std::clamp<int>(value, -128, 127) + 128);
}

/// One dimension: in[0, step, …, 7 step] in place.
template <int kShift>
void transform8(std::int16_t* in, std::size_t step) noexcept {
  const auto at = [&](std::size_t i) { return in[i * step]; };
  const std::int32_t even2 = mix(at(2), 4433, at(6), 4433 - 15137);
  const std::int32_t even3 = mix(at(2), 4433 + 6270, at(6), 4433);
  const std::int32_t sum = wrap(at(0) + at(4)) * (1 << kBits);
  const std::int32_t difference = wrap(at(0) - at(4)) * (1 << kBits);
  const std::int32_t even[4] = {add(sum, even3), add(difference, even2),
                                subtract(difference, even2), subtract(sum, even3)};
  const std::int16_t z3 = wrap(at(7) + at(3));
  const std::int16_t z4 = wrap(at(5) + at(1));
  const std::int32_t both3 = mix(z3, 9633 - 16069, z4, 9633);
  const std::int32_t both4 = mix(z3, 9633, z4, 9633 - 3196);
  const std::int32_t odd[4] = {add(mix(at(7), -7373, at(1), 12299 - 7373), both4),
                               add(mix(at(5), -20995, at(3), 25172 - 20995), both3),
                               add(mix(at(5), 16819 - 20995, at(3), -20995), both4),
                               add(mix(at(7), 2446 - 7373, at(1), -7373), both3)};
  for (std::size_t i = 0; i < 4; ++i) {
    in[i * step] = descale<kShift>(add(even[i], odd[i]));
    in[(7 - i) * step] = descale<kShift>(subtract(even[i], odd[i]));
  }
}

template <int kShift>
void transform4(const std::int16_t* in, std::size_t step, std::int16_t* out,
                std::size_t out_step) noexcept {
  const auto at = [&](std::size_t i) { return in[i * step]; };
  const std::int32_t first = at(0) * (1 << (kBits + 1));
  const std::int32_t second = mix(at(2), 15137, at(6), -6270);
  const std::int32_t even[2] = {add(first, second), subtract(first, second)};
  const std::int32_t odd[2] = {
      add(mix(at(1), 20995, at(3), 7373), mix(at(5), -4926, at(7), -4176)),
      add(mix(at(1), 8697, at(3), -17799), mix(at(5), 11893, at(7), -1730))};
  for (std::size_t i = 0; i < 2; ++i) {
    out[i * out_step] = descale<kShift>(add(even[i], odd[i]));
    out[(3 - i) * out_step] = descale<kShift>(subtract(even[i], odd[i]));
  }
}

/// Of the first column only the even part is scaled by 16 bits of it: the rest is like any other.
std::int32_t odd2(const std::int16_t* in, std::size_t step) noexcept {
  return add(mix(in[step], 29692, in[3 * step], -10426),
             mix(in[5 * step], 6967, in[7 * step], -5906));
}

template <int kShift>
constexpr std::int32_t descale_wide(std::int32_t value) noexcept {
  return add(value, 1 << (kShift - 1)) >> kShift;
}

/// The rows below the first hold nothing: the library then does not saturate the first pass.
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
    // The one size that the library does in plain C: it wraps to 10 bits.
    const int value = (coefficients[0] * quantisation[0] + 4) >> 3;
    const int wrapped = ((value + 512) & 1023) - 512;
    *target = static_cast<std::uint8_t>(std::clamp(wrapped + 128, 0, 255));
    return;
  }
  std::int16_t block[64];
  for (int i = 0; i < 64; ++i) block[i] = wrap(coefficients[i] * quantisation[i]);
  const auto flat = [&](std::int16_t value) { return wrap(value * (1 << kExtraBits)); };
  if (side == 8) {
    if (only_first_row(coefficients, false)) {
      for (int i = 0; i < 64; ++i) block[i] = i < 8 ? flat(block[i]) : block[i % 8];
    } else {
      for (std::size_t x = 0; x < 8; ++x) transform8<kBits - kExtraBits>(block + x, 8);
    }
    for (std::size_t y = 0; y < 8; ++y) {
      transform8<kBits + kExtraBits + 3>(block + 8 * y, 1);
      for (std::size_t x = 0; x < 8; ++x) target[y * stride + x] = sample(block[8 * y + x]);
    }
  } else if (side == 4) {
    std::int16_t half[4 * 8];
    if (only_first_row(coefficients, true)) {
      for (int i = 0; i < 32; ++i) half[i] = flat(block[i % 8]);
    } else {
      for (std::size_t x = 0; x < 8; ++x)
        transform4<kBits - kExtraBits + 1>(block + x, 8, half + x, 8);
    }
    for (std::size_t y = 0; y < 4; ++y) {
      std::int16_t row[4];
      transform4<kBits + kExtraBits + 3 + 1>(half + 8 * y, 1, row, 1);
      for (std::size_t x = 0; x < 4; ++x) target[y * stride + x] = sample(row[x]);
    }
  } else {
    constexpr int kFirst = kBits - kExtraBits + 2;
    constexpr int kSecond = kBits + kExtraBits + 3 + 2;
    std::int32_t first[2] = {};
    std::int16_t rest[2][8] = {};
    for (std::size_t x = 0; x < 8; ++x) {
      if (x == 2 || x == 4 || x == 6) continue;
      const std::int32_t even = block[x] * (1 << (kBits + 2));
      const std::int32_t odd = odd2(block + x, 8);
      const std::int32_t both[2] = {descale_wide<kFirst>(add(even, odd)),
                                    descale_wide<kFirst>(subtract(even, odd))};
      for (std::size_t y = 0; y < 2; ++y) {
        if (x == 0) first[y] = both[y];
        rest[y][x] = saturate(both[y]);
      }
    }
    for (std::size_t y = 0; y < 2; ++y) {
      const auto even =
          static_cast<std::int32_t>(static_cast<std::uint32_t>(first[y]) << (kBits + 2));
      const std::int32_t odd = odd2(rest[y], 1);
      target[y * stride] = sample(descale<kSecond>(add(even, odd)));
      target[y * stride + 1] = sample(descale<kSecond>(subtract(even, odd)));
    }
  }
}

}  // namespace penstock::jpeg
