#include <array>
#include <bit>
#include <cstring>

#include "pipeline/work/image/resize_windows.h"
#include "pipeline/work/jpeg/records/layout.h"
#include "pipeline/work/jpeg/records/packed_row.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pipeline/work/jpeg/records/transform_row.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#if HWY_ARCH_X86
#ifndef __clang__
// GCC 12's own intrinsics read variables that they leave uninitialised on purpose (its PR 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#endif

#include "pipeline/work/jpeg/idct-inl.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::jpeg {
namespace HWY_NAMESPACE {
namespace {

/// A value of the byte stream that stands for one of the word stream; never a coefficient there.
constexpr std::uint8_t kEscape = 0x80;

/// Blocks that may be expanded from one place that `holds`: no more than kRecordSlack bytes beyond
/// a stream's end are read.
constexpr int kUnchecked = 4;
static_assert(kUnchecked * kBlockSize <= kRecordSlack);

HWY_INLINE bool holds(const PackedRow& at) {
  return (at.masks <= at.masks_end) & (at.nibbles <= at.nibbles_end) & (at.bytes <= at.bytes_end);
}

/// Puts words where `places` has bits, in a block whose rows are `stride` apart. Returns what lies
/// behind them; null if they are too few.
HWY_NOINLINE const std::uint8_t* put_words(const std::uint8_t* words, const std::uint8_t* end,
                                           std::uint64_t places, std::int16_t* block,
                                           std::size_t stride) {
  if (end - words < 2 * std::popcount(places)) return nullptr;
  for (; places != 0; places &= places - 1, words += 2) {
    const auto at = static_cast<std::size_t>(std::countr_zero(places));
    block[at / 8 * stride + at % 8] = static_cast<std::int16_t>(words[0] | words[1] << 8);
  }
  return words;
}

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || HWY_HAVE_SCALABLE

/// Writes the coefficients of the next block, but for the DC, to rows `stride` apart. Returns the
/// places of words.
HWY_INLINE std::uint64_t expand(PackedRow& at, std::int16_t* block, std::size_t stride) {
  std::uint64_t words = 0;
  unsigned taken = 0;
  const unsigned presence = *at.presences++;
  for (std::size_t y = 0; y < 8; ++y) {
    std::int16_t* row = block + y * stride;
    std::memset(row, 0, 8 * sizeof(*row));
    if ((presence >> y & 1) == 0) continue;
    for (unsigned columns = *at.masks++; columns != 0; columns &= columns - 1) {
      const unsigned nibble = at.nibbles[taken / 2] >> (taken % 2 * 4) & 15U;
      ++taken;
      int value = static_cast<int>(nibble ^ 8U) - 8;
      if (nibble == 0) {
        value = static_cast<std::int8_t>(*at.bytes);
        if (*at.bytes++ == kEscape)
          words |= std::uint64_t{1}
                   << (8 * y + static_cast<std::size_t>(std::countr_zero(columns)));
      }
      row[std::countr_zero(columns)] = static_cast<std::int16_t>(value);
    }
  }
  at.nibbles += (taken + 1) / 2;
  return words;
}

#else

/// By a mask of eight: where in a vector the bytes come from that stand at its bits.
struct Spread {
  alignas(64) std::uint8_t from[256][8];
};
constexpr Spread make_spread() {
  Spread spread{};
  for (unsigned mask = 0; mask < 256; ++mask) {
    unsigned next = 0;
    for (unsigned x = 0; x < 8; ++x)
      spread.from[mask][x] = static_cast<std::uint8_t>((mask >> x & 1) != 0 ? next++ : 0x80);
  }
  return spread;
}
inline constexpr Spread kSpread = make_spread();

/// What to add to the places of two rows, of which the first has so many values: up to 8, and one
/// more in all where they begin amidst a byte.
struct Shifts {
  alignas(64) std::uint8_t by[2][9][16];
};
constexpr Shifts make_shifts() {
  Shifts shifts{};
  for (unsigned all = 0; all < 2; ++all)
    for (unsigned first = 0; first < 9; ++first)
      for (unsigned x = 0; x < 16; ++x)
        shifts.by[all][first][x] = static_cast<std::uint8_t>(all + (x < 8 ? 0 : first));
  return shifts;
}
inline constexpr Shifts kShifts = make_shifts();

using Eight = hn::FixedTag<std::uint8_t, 8>;
using Sixteen = hn::FixedTag<std::uint8_t, 16>;
using Bytes16 = hn::Vec<Sixteen>;

/// Where the values of two rows come from; zeros elsewhere.
HWY_INLINE Bytes16 places_of(unsigned masks, unsigned odd) {
  const Eight eight;
  const Sixteen sixteen;
  const unsigned lower = masks & 255;
  const auto both = hn::Combine(sixteen, hn::LoadU(eight, kSpread.from[masks >> 8]),
                                hn::LoadU(eight, kSpread.from[lower]));
  return hn::Add(both, hn::Load(sixteen, kShifts.by[odd][std::popcount(lower)]));
}

/// The values of two full rows that begin amidst a byte, which are in one byte more than a vector
/// takes.
HWY_NOINLINE void widen_slowly(const std::uint8_t* nibbles, std::uint8_t* out) {
  for (unsigned i = 0; i < 16; ++i) {
    const unsigned nibble = nibbles[(i + 1) / 2] >> ((i + 1) % 2 * 4) & 15U;
    out[i] = static_cast<std::uint8_t>((nibble ^ 8U) - 8U);
  }
}

HWY_INLINE std::uint64_t expand(PackedRow& at, std::int16_t* block, std::size_t stride) {
  const Eight eight;
  const Sixteen sixteen;
  const hn::Rebind<std::int8_t, Eight> signed_eight;
  const hn::Rebind<std::int16_t, Eight> row_of;
  alignas(16) static constexpr std::uint8_t kSigned[16] = {
      0, 1, 2, 3, 4, 5, 6, 7, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff};
  const auto table = hn::Load(sixteen, kSigned);
  const auto low_bits = hn::Set(sixteen, 15);
  const unsigned presence = *at.presences++;
  alignas(8) std::uint64_t mask;
  hn::Store(
      hn::TableLookupBytesOr0(hn::LoadU(eight, at.masks), hn::LoadU(eight, kSpread.from[presence])),
      eight, reinterpret_cast<std::uint8_t*>(&mask));
  at.masks += std::popcount(presence);
  unsigned taken = 0;
  std::uint64_t words = 0;
  for (std::size_t y = 0; y < 8; y += 2, mask >>= 16) {
    const auto masks = static_cast<unsigned>(mask & 0xffff);
    const unsigned odd = taken & 1;
    const auto packed = hn::ZeroExtendVector(sixteen, hn::LoadU(eight, at.nibbles + taken / 2));
    const auto apart = hn::InterleaveLower(sixteen, hn::And(packed, low_bits),
                                           hn::And(hn::ShiftRight<4>(packed), low_bits));
    auto small = hn::TableLookupBytesOr0(hn::TableLookupBytes(table, apart), places_of(masks, odd));
    if (HWY_UNLIKELY(masks == 0xffff && odd != 0)) {
      alignas(16) std::uint8_t values[16];
      widen_slowly(at.nibbles + taken / 2, values);
      small = hn::Load(sixteen, values);
    }
    taken += static_cast<unsigned>(std::popcount(masks));
    std::uint16_t zeros;
    hn::StoreMaskBits(sixteen, hn::Eq(small, hn::Zero(sixteen)),
                      reinterpret_cast<std::uint8_t*>(&zeros));
    const unsigned large = masks & zeros;
    const auto values =
        hn::Or(small, hn::TableLookupBytesOr0(hn::LoadU(sixteen, at.bytes), places_of(large, 0)));
    at.bytes += std::popcount(large);
    std::uint16_t escapes;
    hn::StoreMaskBits(sixteen, hn::Eq(values, hn::Set(sixteen, kEscape)),
                      reinterpret_cast<std::uint8_t*>(&escapes));
    words |= std::uint64_t{escapes} << (8 * y);
    hn::StoreU(hn::PromoteTo(row_of, hn::BitCast(signed_eight, hn::LowerHalf(eight, values))),
               row_of, block + y * stride);
    hn::StoreU(hn::PromoteTo(row_of, hn::BitCast(signed_eight, hn::UpperHalf(eight, values))),
               row_of, block + (y + 1) * stride);
  }
  at.nibbles += (taken + 1) / 2;
  return words;
}

#endif

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || HWY_HAVE_SCALABLE

HWY_INLINE void transform_neighbours(Batch& batch, const Plane& plane) {
  transform(batch, plane.quantisation.data(), plane.stride);
}

#else

/// A batch of blocks that lie side by side: whole rows are written, up to three blocks beyond.
HWY_INLINE void transform_neighbours(Batch& batch, const Plane& plane) {
  const Shorts shorts;
  const std::int16_t* quantisation = plane.quantisation.data();
  ShortVector v[8];
  for (std::size_t y = 0; y < 8; ++y)
    v[y] = hn::Mul(hn::Load(shorts, batch.coefficients.data() + y * kLanes),
                   hn::LoadDup128(shorts, quantisation + 8 * y));
  if (!transform_rows(v, batch.targets[0], plane.stride))
    return transform_large(batch, quantisation, plane.stride);
  batch.count = 0;
}

#endif

/// One block after the other into the plane's batch.
bool transform_row_here(const PackedRow& row, Plane& plane, std::uint8_t* target) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || HWY_HAVE_SCALABLE
  constexpr std::size_t kStride = 8;
#else
  constexpr std::size_t kStride = kLanes;
#endif
  PackedRow at = row;
  alignas(64) std::int16_t apart[kBlockSize];
  const auto next = [&](std::int16_t* block, std::size_t stride) HWY_ATTR {
    if (!holds(at)) return false;
    if (const std::uint64_t words = expand(at, block, stride); HWY_UNLIKELY(words != 0)) {
      at.words = put_words(at.words, at.words_end, words, block, stride);
      if (at.words == nullptr) return false;
    }
    std::memcpy(block, at.dcs, sizeof(*block));
    at.dcs += sizeof(*block);
    return true;
  };
  for (int x = 0; x < plane.first_block; ++x)
    if (!next(apart, 8)) return false;
  const auto side = static_cast<std::size_t>(plane.side);
  target += static_cast<std::size_t>(plane.first_block) * side;
  if (plane.side != kBlockSide) {
    for (int x = plane.first_block; x < plane.last_block; ++x, target += side) {
      if (!next(apart, 8)) return false;
      transform_plainly(apart, plane.quantisation.data(), plane.side, target, plane.stride);
    }
    return holds(at);
  }
  Batch& batch = plane.batch;
  for (int x = plane.first_block; x < plane.last_block; ++x, target += kBlockSide) {
    // Not when the last was added: what is loaded right behind its stores has to wait for them.
    if (is_full(batch)) transform_neighbours(batch, plane);
    std::int16_t* block = batch.coefficients.data() + batch.count * 8;
    if (!next(block, kStride)) {
      batch.count = 0;
      return false;
    }
    batch.targets[batch.count++] = target;
  }
  if (batch.count > 0) transform_neighbours(batch, plane);
  return holds(at);
}

#if HWY_TARGET == HWY_AVX3

#define PENSTOCK_EXPAND __attribute__((target(HWY_TARGET_STR ",avx512vbmi,avx512vbmi2")))

/// A block as two vectors of four rows.
struct Halves {
  __m512i top;
  __m512i bottom;
};

/// Keeps a load out of the instruction that takes its value: some machines read memory that is to
/// be expanded byte by byte.
template <typename Vector>
PENSTOCK_EXPAND HWY_INLINE Vector in_register(Vector vector) {
  asm("" : "+v"(vector));
  return vector;
}

/// All of a block at once; `kWords`: the row has words.
template <bool kWords>
PENSTOCK_EXPAND HWY_INLINE Halves expand_at_once(PackedRow& at) {
  const __m128i rows = in_register(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at.masks)));
  const auto presence = static_cast<__mmask16>(*at.presences++);
  const auto mask =
      static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm_maskz_expand_epi8(presence, rows)));
  at.masks += std::popcount(static_cast<unsigned>(presence));
  const __m512i sign =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1));
  const __m512i pairs =
      _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at.nibbles)));
  const __m512i apart =
      _mm512_and_si512(_mm512_or_si512(pairs, _mm512_slli_epi16(pairs, 4)), _mm512_set1_epi8(15));
  at.nibbles += (std::popcount(mask) + 1) / 2;
  __m512i values = _mm512_maskz_expand_epi8(mask, _mm512_shuffle_epi8(sign, apart));
  const __mmask64 large = _mm512_mask_testn_epi8_mask(mask, values, values);
  values = _mm512_mask_expand_epi8(values, large, in_register(_mm512_loadu_si512(at.bytes)));
  at.bytes += std::popcount(static_cast<std::uint64_t>(large));
  Halves halves{_mm512_cvtepi8_epi16(_mm512_castsi512_si256(values)),
                _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64(values, 1))};
  if constexpr (kWords) {
    // Without a branch: which blocks have words can't be foreseen.
    const auto words = static_cast<std::uint64_t>(
        _mm512_mask_cmpeq_epi8_mask(large, values, _mm512_set1_epi8(-128)));
    const auto upper = static_cast<__mmask32>(words);
    const auto lower = static_cast<__mmask32>(words >> 32);
    halves.top =
        _mm512_mask_expand_epi16(halves.top, upper, in_register(_mm512_loadu_si512(at.words)));
    at.words += 2 * std::popcount(static_cast<std::uint32_t>(upper));
    halves.bottom =
        _mm512_mask_expand_epi16(halves.bottom, lower, in_register(_mm512_loadu_si512(at.words)));
    at.words += 2 * std::popcount(static_cast<std::uint32_t>(lower));
  }
  std::int16_t dc;
  std::memcpy(&dc, at.dcs, sizeof(dc));
  at.dcs += sizeof(dc);
  halves.top = _mm512_mask_set1_epi16(halves.top, 1, dc);
  return halves;
}

/// Rows of four blocks from their halves: the 128 bits of each block side by side.
PENSTOCK_EXPAND HWY_INLINE void gather_four(const __m512i* halves, ShortVector* rows) {
  const __m512i a = _mm512_shuffle_i64x2(halves[0], halves[1], 0x44);
  const __m512i b = _mm512_shuffle_i64x2(halves[0], halves[1], 0xee);
  const __m512i c = _mm512_shuffle_i64x2(halves[2], halves[3], 0x44);
  const __m512i d = _mm512_shuffle_i64x2(halves[2], halves[3], 0xee);
  rows[0].raw = _mm512_shuffle_i64x2(a, c, 0x88);
  rows[1].raw = _mm512_shuffle_i64x2(a, c, 0xdd);
  rows[2].raw = _mm512_shuffle_i64x2(b, d, 0x88);
  rows[3].raw = _mm512_shuffle_i64x2(b, d, 0xdd);
}

/// The same blocks for transform_large.
HWY_NOINLINE void transform_apart(const __m512i* top, const __m512i* bottom, std::size_t count,
                                  std::uint8_t* target, const Plane& plane) {
  for (std::size_t i = 0; i < count; ++i, target += plane.side) {
    alignas(64) std::int16_t block[kBlockSize];
    _mm512_store_si512(block, top[i]);
    _mm512_store_si512(block + 32, bottom[i]);
    transform_plainly(block, plane.quantisation.data(), plane.side, target, plane.stride);
  }
}

template <bool kWords>
PENSTOCK_EXPAND bool transform_fours(const PackedRow& row, Plane& plane, std::uint8_t* target) {
  const Shorts shorts;
  PackedRow at = row;
  for (int x = 0; x < plane.first_block; ++x) {
    if (!holds(at) || at.words > at.words_end) return false;
    expand_at_once<kWords>(at);
  }
  const auto side = static_cast<std::size_t>(plane.side);
  target += static_cast<std::size_t>(plane.first_block) * side;
  for (int x = plane.first_block; x < plane.last_block;
       x += kUnchecked, target += kUnchecked * side) {
    if (!holds(at)) return false;
    const auto count = static_cast<std::size_t>(std::min(plane.last_block - x, kUnchecked));
    __m512i top[kUnchecked];
    __m512i bottom[kUnchecked];
    for (std::size_t i = 0; i < kUnchecked; ++i) {
      if (HWY_UNLIKELY(i >= count)) {
        top[i] = bottom[i] = _mm512_setzero_si512();
        continue;
      }
      if (kWords && at.words > at.words_end) return false;
      const Halves halves = expand_at_once<kWords>(at);
      top[i] = halves.top;
      bottom[i] = halves.bottom;
    }
    if (plane.side != kBlockSide) {
      transform_apart(top, bottom, count, target, plane);
      continue;
    }
    ShortVector v[8];
    gather_four(top, v);
    gather_four(bottom, v + 4);
    for (std::size_t y = 0; y < 8; ++y)
      v[y] = hn::Mul(v[y], hn::LoadDup128(shorts, plane.quantisation.data() + 8 * y));
    if (!transform_rows(v, target, plane.stride))
      transform_apart(top, bottom, count, target, plane);
  }
  return holds(at) && at.words <= at.words_end;
}

bool transform_row_at_once(const PackedRow& row, Plane& plane, std::uint8_t* target) {
  return row.words == row.words_end ? transform_fours<false>(row, plane, target)
                                    : transform_fours<true>(row, plane, target);
}

#else

bool transform_row_at_once(const PackedRow& row, Plane& plane, std::uint8_t* target) {
  return transform_row_here(row, plane, target);
}

#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace penstock::jpeg
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace penstock::jpeg {

HWY_EXPORT(transform_row_here);
HWY_EXPORT(transform_row_at_once);

bool transform_row(const PackedRow& row, Plane& plane, std::uint8_t* target) noexcept {
  // That is, Highway's AVX3_DL, which has VBMI2.
  if (image::windows_supported())
    return HWY_DYNAMIC_DISPATCH(transform_row_at_once)(row, plane, target);
  return HWY_DYNAMIC_DISPATCH(transform_row_here)(row, plane, target);
}

}  // namespace penstock::jpeg
#endif  // HWY_ONCE
