// The inverse DCT of several blocks at once. For foreach_target: it has no usual include guard;
// include it once for each target.

// clang-format off
#if defined(PENSTOCK_JPEG_IDCT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PENSTOCK_JPEG_IDCT_INL_H
#undef PENSTOCK_JPEG_IDCT_INL_H
#else
#define PENSTOCK_JPEG_IDCT_INL_H
#endif
// clang-format on

#include <cstring>

#include <hwy/highway.h>

#include "pipeline/jpeg/idct.h"
#include "pipeline/jpeg/scan.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::jpeg {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || HWY_HAVE_SCALABLE

/// Puts a block in zigzag order into the batch.
HWY_INLINE void add_block(Batch& batch, const std::int16_t* zigzag, std::uint8_t* target) {
  std::int16_t* out = batch.coefficients.data();
  for (std::size_t i = 0; i < kBlockSize; ++i) out[kNaturalOrder[i]] = zigzag[i];
  batch.targets[batch.count++] = target;
}

HWY_INLINE bool is_full(const Batch& batch) {
  return batch.count == 1;
}

HWY_INLINE void transform(Batch& batch, const std::int16_t* quantisation, std::size_t stride) {
  transform_plainly(batch.coefficients.data(), quantisation, 8, batch.targets[0], stride);
  batch.count = 0;
}

#else

namespace hn = hwy::HWY_NAMESPACE;

using Shorts = hn::ScalableTag<std::int16_t>;
using Words = hn::Repartition<std::int32_t, Shorts>;
using Row = hn::FixedTag<std::int16_t, 8>;
using ShortVector = hn::Vec<Shorts>;
using WordVector = hn::Vec<Words>;
constexpr std::size_t kLanes = hn::MaxLanes(Shorts());
constexpr std::size_t kBlocks = kLanes / 8;
static_assert(kBlocks <= kMaxBatch);

#if HWY_TARGET <= HWY_AVX3

// Highway 1.0 has no function that permutes two vectors.
alignas(64) inline constexpr std::uint16_t kZigzag[kBlockSize] = {
    0,  1,  5,  6,  14, 15, 27, 28, 2,  4,  7,  13, 16, 26, 29, 42, 3,  8,  12, 17, 25, 30,
    41, 43, 9,  11, 18, 24, 31, 40, 44, 53, 10, 19, 23, 32, 39, 45, 52, 54, 20, 22, 33, 38,
    46, 51, 55, 60, 21, 34, 37, 47, 50, 56, 59, 61, 35, 36, 48, 49, 57, 58, 62, 63};

HWY_INLINE void gather_rows(const std::int16_t* zigzag, std::int16_t* out) {
  const __m512i first = _mm512_load_si512(zigzag);
  const __m512i second = _mm512_load_si512(zigzag + 32);
  for (std::size_t half = 0; half < 2; ++half) {
    const __m512i from = _mm512_load_si512(kZigzag + 32 * half);
    const __m512i rows = _mm512_permutex2var_epi16(first, from, second);
    std::int16_t* to = out + 4 * half * kLanes;
    _mm_store_si128(reinterpret_cast<__m128i*>(to), _mm512_castsi512_si128(rows));
    _mm_store_si128(reinterpret_cast<__m128i*>(to + kLanes), _mm512_extracti32x4_epi32(rows, 1));
    _mm_store_si128(reinterpret_cast<__m128i*>(to + 2 * kLanes),
                    _mm512_extracti32x4_epi32(rows, 2));
    _mm_store_si128(reinterpret_cast<__m128i*>(to + 3 * kLanes),
                    _mm512_extracti32x4_epi32(rows, 3));
  }
}

#else

/// The bytes of one row in natural order that come from one eighth of the zigzag.
struct Pick {
  alignas(16) std::uint8_t bytes[16];
  bool any;
};
constexpr Pick pick_of(std::size_t row, std::size_t eighth) {
  constexpr std::uint8_t kZigzag[64] = {
      0,  1,  5,  6,  14, 15, 27, 28, 2,  4,  7,  13, 16, 26, 29, 42, 3,  8,  12, 17, 25, 30,
      41, 43, 9,  11, 18, 24, 31, 40, 44, 53, 10, 19, 23, 32, 39, 45, 52, 54, 20, 22, 33, 38,
      46, 51, 55, 60, 21, 34, 37, 47, 50, 56, 59, 61, 35, 36, 48, 49, 57, 58, 62, 63};
  Pick pick{};
  for (std::size_t x = 0; x < 8; ++x) {
    const std::size_t from = kZigzag[row * 8 + x];
    const bool here = from / 8 == eighth;
    pick.any = pick.any || here;
    for (std::size_t i = 0; i < 2; ++i)
      pick.bytes[2 * x + i] = here ? static_cast<std::uint8_t>(from % 8 * 2 + i) : 0x80;
  }
  return pick;
}
template <std::size_t kRow, std::size_t kEighth>
inline constexpr Pick kPick = pick_of(kRow, kEighth);

template <std::size_t kRow, std::size_t kEighth = 0>
HWY_INLINE hn::Vec<Row> gather_row(const std::int16_t* zigzag) {
  const Row row;
  const hn::Repartition<std::uint8_t, Row> bytes;
  if constexpr (kEighth == 8) {
    return hn::Zero(row);
  } else {
    const auto rest = gather_row<kRow, kEighth + 1>(zigzag);
    if constexpr (kPick<kRow, kEighth>.any) {
      const auto from = hn::BitCast(bytes, hn::Load(row, zigzag + kEighth * 8));
      const auto picked =
          hn::TableLookupBytesOr0(from, hn::Load(bytes, kPick<kRow, kEighth>.bytes));
      return hn::Or(rest, hn::BitCast(row, picked));
    } else {
      return rest;
    }
  }
}

template <std::size_t kRow = 0>
HWY_INLINE void gather_rows(const std::int16_t* zigzag, std::int16_t* out) {
  if constexpr (kRow < 8) {
    hn::Store(gather_row<kRow>(zigzag), Row(), out + kRow * kLanes);
    gather_rows<kRow + 1>(zigzag, out);
  }
}

#endif

/// Puts a block in zigzag order into the batch.
HWY_INLINE void add_block(Batch& batch, const std::int16_t* zigzag, std::uint8_t* target) {
  gather_rows(zigzag, batch.coefficients.data() + batch.count * 8);
  batch.targets[batch.count++] = target;
}

HWY_INLINE bool is_full(const Batch& batch) {
  return batch.count == kBlocks;
}

/// Returns the sums of the products of neighbouring pairs.
HWY_INLINE WordVector mul_pairs(ShortVector a, ShortVector b) {
  const Words words;
  WordVector upper = hn::Zero(words);
  const WordVector lower = hn::ReorderWidenMulAccumulate(words, a, b, hn::Zero(words), upper);
#if HWY_ARCH_X86
  return lower;  // there the pairs' sums are complete
#else
  return hn::Add(hn::ConcatEven(words, upper, lower), hn::ConcatOdd(words, upper, lower));
#endif
}

struct Pair {
  WordVector lower;
  WordVector upper;
};

HWY_INLINE Pair operator+(Pair a, Pair b) {
  return {hn::Add(a.lower, b.lower), hn::Add(a.upper, b.upper)};
}
HWY_INLINE Pair operator-(Pair a, Pair b) {
  return {hn::Sub(a.lower, b.lower), hn::Sub(a.upper, b.upper)};
}

struct Interleaved {
  ShortVector lower;
  ShortVector upper;
};

HWY_INLINE Interleaved interleave(ShortVector a, ShortVector b) {
  return {hn::InterleaveLower(Shorts(), a, b), hn::InterleaveUpper(Shorts(), a, b)};
}

/// a * by_a + b * by_b
HWY_INLINE Pair mix(Interleaved ab, int by_a, int by_b) {
  const auto both = static_cast<std::int32_t>(static_cast<std::uint32_t>(by_a & 0xffff) |
                                              static_cast<std::uint32_t>(by_b) << 16);
  const ShortVector factors = hn::BitCast(Shorts(), hn::Set(Words(), both));
  return {mul_pairs(ab.lower, factors), mul_pairs(ab.upper, factors)};
}

/// value << 13
HWY_INLINE Pair widen(ShortVector value) {
  const Interleaved high = interleave(hn::Zero(Shorts()), value);
  return {hn::ShiftRight<3>(hn::BitCast(Words(), high.lower)),
          hn::ShiftRight<3>(hn::BitCast(Words(), high.upper))};
}

template <int kShift>
HWY_INLINE ShortVector descale(Pair value) {
  const WordVector half = hn::Set(Words(), 1 << (kShift - 1));
  return hn::ReorderDemote2To(Shorts(), hn::ShiftRight<kShift>(hn::Add(value.lower, half)),
                              hn::ShiftRight<kShift>(hn::Add(value.upper, half)));
}

/// One dimension of the transform, down the columns. See transform_plainly.
template <int kShift>
HWY_INLINE void transform_columns(ShortVector* v) {
  const Interleaved v26 = interleave(v[2], v[6]);
  const Pair even2 = mix(v26, 4433, 4433 - 15137);
  const Pair even3 = mix(v26, 4433 + 6270, 4433);
  const Pair sum = widen(hn::Add(v[0], v[4]));
  const Pair difference = widen(hn::Sub(v[0], v[4]));
  const Interleaved z34 = interleave(hn::Add(v[7], v[3]), hn::Add(v[5], v[1]));
  const Pair both3 = mix(z34, 9633 - 16069, 9633);
  const Pair both4 = mix(z34, 9633, 9633 - 3196);
  const Interleaved v71 = interleave(v[7], v[1]);
  const Interleaved v53 = interleave(v[5], v[3]);
  const Pair odd0 = mix(v71, -7373, 12299 - 7373) + both4;
  const Pair odd1 = mix(v53, -20995, 25172 - 20995) + both3;
  const Pair odd2 = mix(v53, 16819 - 20995, -20995) + both4;
  const Pair odd3 = mix(v71, 2446 - 7373, -7373) + both3;
  const Pair even_0 = sum + even3;
  const Pair even_1 = difference + even2;
  const Pair even_2 = difference - even2;
  const Pair even_3 = sum - even3;
  v[0] = descale<kShift>(even_0 + odd0);
  v[7] = descale<kShift>(even_0 - odd0);
  v[1] = descale<kShift>(even_1 + odd1);
  v[6] = descale<kShift>(even_1 - odd1);
  v[2] = descale<kShift>(even_2 + odd2);
  v[5] = descale<kShift>(even_2 - odd2);
  v[3] = descale<kShift>(even_3 + odd3);
  v[4] = descale<kShift>(even_3 - odd3);
}

/// Transposes each block of 8 x 8.
HWY_INLINE void transpose(ShortVector* v) {
  const Words words;
  const hn::Repartition<std::uint64_t, Shorts> longs;
  const Interleaved a = interleave(v[0], v[1]);
  const Interleaved b = interleave(v[2], v[3]);
  const Interleaved c = interleave(v[4], v[5]);
  const Interleaved d = interleave(v[6], v[7]);
  const auto join = [&](ShortVector x, ShortVector y, ShortVector z, ShortVector w,
                        ShortVector* out) HWY_ATTR {
    const auto xw = hn::BitCast(words, x);
    const auto yw = hn::BitCast(words, y);
    const auto zw = hn::BitCast(words, z);
    const auto ww = hn::BitCast(words, w);
    const auto top01 = hn::BitCast(longs, hn::InterleaveLower(words, xw, yw));
    const auto top23 = hn::BitCast(longs, hn::InterleaveUpper(words, xw, yw));
    const auto low01 = hn::BitCast(longs, hn::InterleaveLower(words, zw, ww));
    const auto low23 = hn::BitCast(longs, hn::InterleaveUpper(words, zw, ww));
    out[0] = hn::BitCast(Shorts(), hn::InterleaveLower(longs, top01, low01));
    out[1] = hn::BitCast(Shorts(), hn::InterleaveUpper(longs, top01, low01));
    out[2] = hn::BitCast(Shorts(), hn::InterleaveLower(longs, top23, low23));
    out[3] = hn::BitCast(Shorts(), hn::InterleaveUpper(longs, top23, low23));
  };
  join(a.lower, b.lower, c.lower, d.lower, v);
  join(a.upper, b.upper, c.upper, d.upper, v + 4);
}

/// Transforms blocks with values so large that the exact overflow of the library matters.
HWY_NOINLINE void transform_large(Batch& batch, const std::int16_t* quantisation,
                                  std::size_t stride, int side = kBlockSide) {
  for (std::size_t i = 0; i < batch.count; ++i) {
    std::int16_t block[kBlockSize];
    for (std::size_t y = 0; y < 8; ++y)
      std::memcpy(block + 8 * y, batch.coefficients.data() + y * kLanes + 8 * i,
                  8 * sizeof(std::int16_t));
    transform_plainly(block, quantisation, side, batch.targets[i], stride);
  }
  batch.count = 0;
}

/// Turns the dequantised rows of blocks into rows of samples, with the blocks next to each other.
/// Returns false and does nothing if the blocks need transform_large.
HWY_INLINE bool transform_rows(ShortVector* v, std::uint8_t* out, std::size_t stride) {
  const Shorts shorts;
  // The library's implementations overflow differently for a block of one row.
  const auto scaled = hn::ShiftLeft<2>(v[0]);
  if (!hn::AllTrue(shorts, hn::Eq(hn::ShiftRight<2>(scaled), v[0]))) return false;
  transform_columns<11>(v);
  transpose(v);
  transform_columns<18>(v);
  transpose(v);
  const hn::Rebind<std::uint8_t, Shorts> bytes;
  for (std::size_t y = 0; y < 8; ++y)
    hn::StoreU(hn::DemoteTo(bytes, hn::SaturatedAdd(v[y], hn::Set(shorts, 128))), bytes,
               out + y * stride);
  return true;
}

HWY_INLINE void transform(Batch& batch, const std::int16_t* quantisation, std::size_t stride) {
  const Shorts shorts;
  ShortVector v[8];
  for (std::size_t y = 0; y < 8; ++y)
    v[y] = hn::Mul(hn::Load(shorts, batch.coefficients.data() + y * kLanes),
                   hn::LoadDup128(shorts, quantisation + 8 * y));
  alignas(64) std::uint8_t rows[8 * kLanes];
  if (!transform_rows(v, rows, kLanes)) return transform_large(batch, quantisation, stride);
  for (std::size_t i = 0; i < batch.count; ++i)
    for (std::size_t y = 0; y < 8; ++y)
      std::memcpy(batch.targets[i] + y * stride, rows + y * kLanes + 8 * i, 8);
  batch.count = 0;
}

#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace penstock::jpeg
HWY_AFTER_NAMESPACE();

#endif
