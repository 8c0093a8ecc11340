#include "pipeline/work/jpeg/scan.h"

#include <bit>
#include <cstring>

#include "pipeline/work/jpeg/bits.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pipeline/work/jpeg/scan.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "pipeline/work/jpeg/idct-inl.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::jpeg {
namespace HWY_NAMESPACE {
namespace {

/// A run writes up to eight coefficients from up to 64 behind the last.
constexpr std::size_t kRoom = 2 * kBlockSize + 16;

/// The parts of Bits that stay in registers.
struct Hot {
  const std::uint8_t* next;
  const std::uint8_t* plain;
  std::uint64_t window;
  int count;
};

HWY_INLINE Hot load(const Bits& bits) {
  return {bits.next, bits.plain, bits.window, bits.count};
}
HWY_INLINE void store(const Hot& hot, Bits& bits) {
  bits.next = hot.next;
  bits.window = hot.window;
  bits.count = hot.count;
}

/// Makes `count` at least 56.
HWY_INLINE void refill(Hot& hot, Bits& bits) {
  if (HWY_LIKELY(hot.next <= hot.plain)) {
    std::uint64_t word;
    std::memcpy(&word, hot.next, sizeof(word));
    if constexpr (std::endian::native == std::endian::little) word = __builtin_bswap64(word);
    hot.window |= word >> hot.count;
    hot.next += (63 - hot.count) >> 3;
    hot.count |= 56;
  } else {
    store(hot, bits);
    refill_slowly(bits);
    hot = load(bits);
  }
}

HWY_INLINE void drop(Hot& hot, unsigned length) {
  hot.window <<= length & 63;
  hot.count -= static_cast<int>(length);
}

/// The next `size` bits as a value: with a leading 0 it is negative. REQUIRES: they are there.
HWY_INLINE int take_value(Hot& hot, unsigned size) {
  const auto raw = static_cast<int>(hot.window >> 1 >> (63 - size));
  const int negative = static_cast<int>(~hot.window >> 63);
  drop(hot, size);
  return raw - (negative << size) + negative;
}

/// The five values of a run as coefficients; writes eight.
HWY_INLINE void put_values(std::uint64_t run, std::int16_t* out) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || HWY_HAVE_SCALABLE
  for (int i = 0; i < 5; ++i)
    out[i] = static_cast<std::int8_t>(static_cast<std::uint8_t>(run >> (24 + 8 * i)));
#else
  const hn::FixedTag<std::uint64_t, 1> one;
  const hn::FixedTag<std::int8_t, 8> bytes;
  const Row row;
  hn::StoreU(hn::PromoteTo(row, hn::BitCast(bytes, hn::Set(one, run >> 24))), row, out);
#endif
}

/// Symbol by symbol: one, or up to the end of the block.
HWY_NOINLINE unsigned take_slowly(Bits& bits, const AcTable& table, unsigned k, std::int16_t* block,
                                  bool all) {
  do {
    k = take_run(bits, table.code, k, block);
  } while (all && k < kBlockSize);
  return k;
}

/// The AC coefficients of a block, in zigzag order; without kKeep they are only passed over.
/// Returns 64 or kEndOfBlock and more for good blocks; anything else is kBadBlock.
template <bool kKeep>
HWY_INLINE unsigned take_ac(Hot& hot, Bits& bits, const AcTable& table, std::int16_t* block) {
  unsigned k = 1;
  for (;;) {
    refill(hot, bits);
    for (int i = 0; i < 4; ++i) {
      const std::uint64_t window = hot.window;
      const std::uint64_t index = window >> (64 - kTableBits);
      const std::uint64_t run = table.runs[index];
      const auto length = static_cast<unsigned>(run & 255);
      if (HWY_UNLIKELY(length == 0)) {
        const unsigned code = table.code.short_codes[index];
        const unsigned size = code >> 8 & 15;
        const unsigned at = k + (code >> 12);
        // A symbol with a long value.
        if (HWY_LIKELY(size != 0 && at < kBlockSize)) {
          refill(hot, bits);
          drop(hot, code & 255);
          const int value = take_value(hot, size);
          if (kKeep) block[at] = static_cast<std::int16_t>(value);
          k = at + 1;
        } else {
          store(hot, bits);
          k = take_slowly(bits, table, k, block, false);
          hot = load(bits);
        }
        if (k >= kBlockSize) return k;
        break;
      }
      if (kKeep) put_values(run, block + k + (run >> 16 & 255));
      drop(hot, length);
      const unsigned before = k;
      k += static_cast<unsigned>(run >> 8 & 255);
      if (k >= kBlockSize) {
        if (HWY_LIKELY(k == kBlockSize || (k >= kEndOfBlock && k < kEndOfBlock + kBlockSize)))
          return k;
        // The block ended amidst the run.
        hot.window = window;
        hot.count += static_cast<int>(length);
        store(hot, bits);
        k = take_slowly(bits, table, before, block, true);
        hot = load(bits);
        return k;
      }
    }
  }
}

/// Returns a difference of DCs; `good` turns false for bits that are no code.
HWY_INLINE std::uint32_t take_dc(Hot& hot, Bits& bits, const DcTable& table, bool& good) {
  refill(hot, bits);
  const unsigned code = table.code.short_codes[hot.window >> (64 - kTableBits)];
  unsigned size = code >> 8;
  if (HWY_LIKELY(code != 0)) {
    drop(hot, code & 255);
  } else {
    store(hot, bits);
    const int symbol = take_symbol(bits, table.code);
    hot = load(bits);
    good = good && symbol >= 0;
    size = symbol < 0 ? 0 : static_cast<unsigned>(symbol);
  }
  if (size == 0) return 0;
  return static_cast<std::uint32_t>(take_value(hot, size));
}

/// Writes the block's samples, or waits until there are more.
HWY_INLINE void finish_block(Plane& plane, const std::int16_t* block, std::uint8_t* target) {
  if (HWY_LIKELY(plane.side == kBlockSide)) {
    add_block(plane.batch, block, target);
    if (is_full(plane.batch)) transform(plane.batch, plane.quantisation.data(), plane.stride);
    return;
  }
  std::int16_t natural[kBlockSize];
  for (std::size_t i = 0; i < kBlockSize; ++i) natural[kNaturalOrder[i]] = block[i];
  transform_plainly(natural, plane.quantisation.data(), plane.side, target, plane.stride);
}

HWY_NOINLINE bool begin_interval(Scan& scan) {
  const bool good = skip_marker(scan.bits, static_cast<std::uint8_t>(0xd0 + scan.next_restart));
  scan.next_restart = (scan.next_restart + 1) & 7;
  scan.restart_left = scan.restart_interval;
  for (Plane& plane : scan.planes) plane.predictor = 0;
  return good;
}

bool decode_row_here(Scan& scan, bool wanted) {
  Bits& bits = scan.bits;
  Hot hot = load(bits);
  bool good = true;
  unsigned bad = 0;
  alignas(64) std::int16_t block[kRoom];
  for (int mcu = 0; mcu < scan.mcus; ++mcu) {
    if (scan.restart_interval > 0) {
      if (scan.restart_left == 0) {
        store(hot, bits);
        if (!begin_interval(scan)) return false;
        hot = load(bits);
      }
      --scan.restart_left;
    }
    for (int i = 0; i < scan.plane_count; ++i) {
      Plane& plane = scan.planes[static_cast<std::size_t>(i)];
      const AcTable& ac = *plane.ac;
      for (int y = 0; y < plane.vertical; ++y) {
        for (int x = 0; x < plane.horizontal; ++x) {
          plane.predictor += take_dc(hot, bits, *plane.dc, good);
          const int column = mcu * plane.horizontal + x;
          const bool keep = wanted && column >= plane.first_block && column < plane.last_block;
          if (!keep || plane.side == 1) bad |= take_ac<false>(hot, bits, ac, nullptr);
          if (!keep) continue;
          const auto side = static_cast<std::size_t>(plane.side);
          std::uint8_t* target = plane.target + static_cast<std::size_t>(y) * side * plane.stride +
                                 static_cast<std::size_t>(column) * side;
          std::memset(block, 0, kBlockSize * sizeof(block[0]));
          block[0] = static_cast<std::int16_t>(static_cast<std::uint16_t>(plane.predictor));
          if (plane.side > 1) bad |= take_ac<true>(hot, bits, ac, block);
          finish_block(plane, block, target);
        }
      }
    }
  }
  for (int i = 0; i < scan.plane_count; ++i) {
    Plane& plane = scan.planes[static_cast<std::size_t>(i)];
    if (plane.batch.count > 0) transform(plane.batch, plane.quantisation.data(), plane.stride);
  }
  store(hot, bits);
  return good && (bad & kBadBlock) == 0 && bits.count >= bits.missing;
}

bool has_vectors_here() {
  return HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128 && !HWY_HAVE_SCALABLE;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace penstock::jpeg
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace penstock::jpeg {

HWY_EXPORT(decode_row_here);

bool decode_row(Scan& scan, bool wanted) noexcept {
  return HWY_DYNAMIC_DISPATCH(decode_row_here)(scan, wanted);
}

HWY_EXPORT(has_vectors_here);

bool has_vectors() noexcept {
  return HWY_DYNAMIC_DISPATCH(has_vectors_here)();
}

}  // namespace penstock::jpeg
#endif  // HWY_ONCE
