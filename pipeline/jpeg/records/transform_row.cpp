#include <array>
#include <bit>
#include <cstring>

#include "pipeline/codec/simd.h"
#include "pipeline/jpeg/records/layout.h"
#include "pipeline/jpeg/records/packed_row.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pipeline/jpeg/records/transform_row.cpp"
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

#include "pipeline/jpeg/idct_shrunk-inl.h"
#include "pipeline/jpeg/records/expand-inl.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::jpeg {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || HWY_HAVE_SCALABLE

HWY_INLINE void transform_neighbours(Batch& batch, const Plane& plane) {
  transform_shrunk(batch, plane);
}

#else

/// Transforms a batch of adjacent blocks. It writes whole rows, up to three blocks beyond the
/// batch.
HWY_INLINE void transform_neighbours(Batch& batch, const Plane& plane) {
  if (plane.side != kBlockSide) return transform_shrunk(batch, plane);
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

/// Puts one block after the other into the plane's batch.
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
  if (plane.side == 1) {
    for (int x = plane.first_block; x < plane.last_block; ++x, target += side) {
      if (!next(apart, 8)) return false;
      transform_plainly(apart, plane.quantisation.data(), plane.side, target, plane.stride);
    }
    return holds(at);
  }
  Batch& batch = plane.batch;
  for (int x = plane.first_block; x < plane.last_block; ++x, target += side) {
    // Not right after the last block was added: loads that follow stores to the same memory must
    // wait for them.
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

/// Makes rows of four blocks from their halves, with the 128 bits of the blocks next to each other.
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

/// Transforms the same blocks one by one, as transform_large does.
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
    if (plane.side == 1) {
      transform_apart(top, bottom, count, target, plane);
      continue;
    }
    ShortVector v[8];
    gather_four(top, v);
    gather_four(bottom, v + 4);
    for (std::size_t y = 0; y < 8; ++y)
      v[y] = hn::Mul(v[y], hn::LoadDup128(shorts, plane.quantisation.data() + 8 * y));
    bool fits = true;
    if (plane.side == kBlockSide) {
      fits = transform_rows(v, target, plane.stride);
    } else if (fits = shrink_rows(v, side); fits) {
      std::uint8_t* const targets[] = {target, target + side, target + 2 * side, target + 3 * side};
      store_shrunk(v, side, std::span(targets, count), plane.stride);
    }
    if (!fits) transform_apart(top, bottom, count, target, plane);
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
  if (image::avx3_dl_supported())
    return HWY_DYNAMIC_DISPATCH(transform_row_at_once)(row, plane, target);
  return HWY_DYNAMIC_DISPATCH(transform_row_here)(row, plane, target);
}

}  // namespace penstock::jpeg
#endif  // HWY_ONCE
