// Unpacking blocks of coefficients from their packed row. For foreach_target: it has no usual
// include guard; include it once for each target.

// clang-format off
#if defined(PENSTOCK_JPEG_EXPAND_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PENSTOCK_JPEG_EXPAND_INL_H
#undef PENSTOCK_JPEG_EXPAND_INL_H
#else
#define PENSTOCK_JPEG_EXPAND_INL_H
#endif
// clang-format on

#include <bit>
#include <cstring>

#include <hwy/highway.h>

#include "pipeline/jpeg/records/layout.h"
#include "pipeline/jpeg/records/packed_row.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::jpeg {
namespace HWY_NAMESPACE {
namespace {

/// The value of the byte stream that stands for a value of the word stream. It is never a
/// coefficient there.
constexpr std::uint8_t kEscape = 0x80;

/// The number of blocks that may be expanded from a position that `holds`. They read at most
/// kRecordSlack bytes beyond a stream's end.
constexpr int kUnchecked = 4;
static_assert(kUnchecked * kBlockSize <= kRecordSlack);

HWY_INLINE bool holds(const PackedRow& at) {
  return (at.masks <= at.masks_end) & (at.nibbles <= at.nibbles_end) & (at.bytes <= at.bytes_end);
}

/// Puts words at the bits of `places`, in a block whose rows are `stride` apart. Returns the
/// position behind the words, or null if they are too few.
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

/// Writes the coefficients of the next block, without the DC, to rows that are `stride` apart.
/// Returns the places of words.
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

/// For each mask of eight bits, the shuffle that moves consecutive bytes to the places of its bits.
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

/// The numbers to add to the places of two rows. They depend on the number of values in the first
/// row, up to 8. All are one higher if the rows begin in the middle of a byte.
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

namespace hn = hwy::HWY_NAMESPACE;

using Eight = hn::FixedTag<std::uint8_t, 8>;
using Sixteen = hn::FixedTag<std::uint8_t, 16>;
using Bytes16 = hn::Vec<Sixteen>;

/// Returns the sources of the values of two rows, and zeros elsewhere.
HWY_INLINE Bytes16 places_of(unsigned masks, unsigned odd) {
  const Eight eight;
  const Sixteen sixteen;
  const unsigned lower = masks & 255;
  const auto both = hn::Combine(sixteen, hn::LoadU(eight, kSpread.from[masks >> 8]),
                                hn::LoadU(eight, kSpread.from[lower]));
  return hn::Add(both, hn::Load(sixteen, kShifts.by[odd][std::popcount(lower)]));
}

/// Returns the values of two full rows that begin in the middle of a byte. They lie in one byte
/// more than a vector holds.
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

#if HWY_TARGET == HWY_AVX3

#define PENSTOCK_EXPAND __attribute__((target(HWY_TARGET_STR ",avx512vbmi,avx512vbmi2")))

/// A block as two vectors of four rows.
struct Halves {
  __m512i top;
  __m512i bottom;
};

/// Loads the value to a register first. Some machines expand from memory byte by byte.
template <typename Vector>
PENSTOCK_EXPAND HWY_INLINE Vector in_register(Vector vector) {
  asm("" : "+v"(vector));
  return vector;
}

/// Expands all of a block at once. `kWords`: the row has words.
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
    // Without a branch, because it can't be predicted which blocks have words.
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

#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace penstock::jpeg
HWY_AFTER_NAMESPACE();

#endif
