// The inverse DCT of several blocks at once, to any size. For foreach_target: it has no usual
// include guard; include it once for each target.

// clang-format off
#if defined(PENSTOCK_JPEG_IDCT_SHRUNK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PENSTOCK_JPEG_IDCT_SHRUNK_INL_H
#undef PENSTOCK_JPEG_IDCT_SHRUNK_INL_H
#else
#define PENSTOCK_JPEG_IDCT_SHRUNK_INL_H
#endif
// clang-format on

#include <span>

#include "pipeline/jpeg/idct-inl.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::jpeg {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || HWY_HAVE_SCALABLE

HWY_INLINE void transform_shrunk(Batch& batch, const Plane& plane) {
  transform_plainly(batch.coefficients.data(), plane.quantisation.data(), plane.side,
                    batch.targets[0], plane.stride);
  batch.count = 0;
}

#else

/// value << (16 - kShift)
template <int kShift>
HWY_INLINE Pair widen_by(ShortVector value) {
  const Interleaved high = interleave(hn::Zero(Shorts()), value);
  return {hn::ShiftRight<kShift>(hn::BitCast(Words(), high.lower)),
          hn::ShiftRight<kShift>(hn::BitCast(Words(), high.upper))};
}

/// One dimension of the transform, down the columns: eight rows to four. See transform_plainly.
template <int kShift>
HWY_INLINE void halve_columns(ShortVector* v) {
  const Pair first = widen_by<2>(v[0]);
  const Pair second = mix(interleave(v[2], v[6]), 15137, -6270);
  const Interleaved v13 = interleave(v[1], v[3]);
  const Interleaved v57 = interleave(v[5], v[7]);
  const Pair odd0 = mix(v13, 20995, 7373) + mix(v57, -4926, -4176);
  const Pair odd1 = mix(v13, 8697, -17799) + mix(v57, 11893, -1730);
  const Pair even0 = first + second;
  const Pair even1 = first - second;
  v[0] = descale<kShift>(even0 + odd0);
  v[1] = descale<kShift>(even1 + odd1);
  v[2] = descale<kShift>(even1 - odd1);
  v[3] = descale<kShift>(even0 - odd0);
}

/// …to two rows. Returns false if 16 bits are too few.
template <int kShift>
HWY_INLINE bool quarter_columns(ShortVector* v) {
  const Pair even = widen_by<1>(v[0]);
  const Pair odd =
      mix(interleave(v[1], v[3]), 29692, -10426) + mix(interleave(v[5], v[7]), 6967, -5906);
  v[0] = descale<kShift>(even + odd);
  v[1] = descale<kShift>(even - odd);
  const auto extreme = [](ShortVector value) HWY_ATTR {
    const auto most = hn::Set(Shorts(), 32767);
    const auto least = hn::Set(Shorts(), -32768);
    return hn::Or(hn::Eq(value, most), hn::Eq(value, least));
  };
  return hn::AllFalse(Shorts(), hn::Or(extreme(v[0]), extreme(v[1])));
}

HWY_INLINE void clear(ShortVector* v, std::size_t first) {
  for (std::size_t i = first; i < 8; ++i) v[i] = hn::Zero(Shorts());
}

/// Turns dequantised rows of blocks into samples, less 128, in the first `side` rows. Returns false
/// if 16 bits are too few.
HWY_INLINE bool shrink_rows(ShortVector* v, std::size_t side) {
  const Shorts shorts;
  bool fits = true;
  if (side == 4) {
    fits = hn::AllTrue(shorts, hn::Eq(hn::ShiftRight<2>(hn::ShiftLeft<2>(v[0])), v[0]));
    halve_columns<12>(v);
    clear(v, 4);
    transpose(v);
    halve_columns<19>(v);
    clear(v, 4);
  } else {
    fits = quarter_columns<13>(v);
    clear(v, 2);
    transpose(v);
    // Values that saturate here are clamped to a sample anyway.
    static_cast<void>(quarter_columns<20>(v));
    clear(v, 2);
  }
  transpose(v);
  return fits;
}

/// Writes the samples of as many blocks as there are targets.
HWY_INLINE void store_shrunk(const ShortVector* v, std::size_t side,
                             std::span<std::uint8_t* const> targets, std::size_t stride) {
  const Shorts shorts;
  const hn::Rebind<std::uint8_t, Shorts> bytes;
  alignas(64) std::uint8_t rows[4 * kLanes];
  for (std::size_t y = 0; y < side; ++y)
    hn::StoreU(hn::DemoteTo(bytes, hn::SaturatedAdd(v[y], hn::Set(shorts, 128))), bytes,
               rows + y * kLanes);
  for (std::size_t i = 0; i < targets.size(); ++i)
    for (std::size_t y = 0; y < side; ++y)
      for (std::size_t x = 0; x < side; x += 2)
        std::memcpy(targets[i] + y * stride + x, rows + y * kLanes + 8 * i + x, 2);
}

HWY_NOINLINE void transform_shrunk(Batch& batch, const Plane& plane) {
  const Shorts shorts;
  const auto side = static_cast<std::size_t>(plane.side);
  const std::int16_t* quantisation = plane.quantisation.data();
  ShortVector v[8];
  for (std::size_t y = 0; y < 8; ++y)
    v[y] = hn::Mul(hn::Load(shorts, batch.coefficients.data() + y * kLanes),
                   hn::LoadDup128(shorts, quantisation + 8 * y));
  if (!shrink_rows(v, side)) return transform_large(batch, quantisation, plane.stride, plane.side);
  store_shrunk(v, side, std::span(batch.targets.data(), batch.count), plane.stride);
  batch.count = 0;
}

#endif

/// Transforms the blocks of the batch.
HWY_INLINE void finish_batch(Plane& plane) {
  if (HWY_LIKELY(plane.side == kBlockSide)) {
    transform(plane.batch, plane.quantisation.data(), plane.stride);
  } else {
    transform_shrunk(plane.batch, plane);
  }
}

/// Adds a block in zigzag order to the batch; a full batch is transformed first.
HWY_INLINE void finish_block(Plane& plane, const std::int16_t* block, std::uint8_t* target) {
  if (HWY_UNLIKELY(plane.side == 1)) {
    transform_plainly(block, plane.quantisation.data(), 1, target, plane.stride);
    return;
  }
  // Not right after the last block was added: loads that follow stores to the same memory must wait
  // for them.
  if (is_full(plane.batch)) finish_batch(plane);
  add_block(plane.batch, block, target);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace penstock::jpeg
HWY_AFTER_NAMESPACE();

#endif
