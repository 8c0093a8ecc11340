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
  return static_cast<std::uint32_t>(take_value(hot, size));
}

/// Writes the block's samples, or waits until there are more.
HWY_INLINE void finish_block(Plane& plane, const std::int16_t* block, std::uint8_t* target) {
  if (HWY_LIKELY(plane.side == kBlockSide)) {
    // Not when the last was added: what is loaded right behind its stores has to wait for them.
    if (is_full(plane.batch)) transform(plane.batch, plane.quantisation.data(), plane.stride);
    add_block(plane.batch, block, target);
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

/// Puts the block off, and transforms the one that was put off before.
HWY_INLINE void put_off(Scan& scan) {
  std::int16_t* other = scan.blocks[scan.block == scan.blocks[0].data() ? 1 : 0].data();
  if (scan.last_target != nullptr) finish_block(*scan.last_plane, other, scan.last_target);
  scan.last_plane = scan.places[static_cast<std::size_t>(scan.place)].plane;
  scan.last_target = scan.target;
  scan.block = other;
}

HWY_NOINLINE void flush(Scan& scan) {
  scan.target = nullptr;
  put_off(scan);
  for (Plane& plane : scan.planes)
    if (plane.batch.count > 0) transform(plane.batch, plane.quantisation.data(), plane.stride);
}

/// Takes the DC of the block at the scan's place. False if the bytes are bad.
HWY_INLINE bool begin_block(Scan& scan) {
  if (scan.place == 0 && scan.restart_interval > 0) {
    if (scan.restart_left == 0 && !begin_interval(scan)) return scan.good = false;
    --scan.restart_left;
  }
  const Scan::Place& place = scan.places[static_cast<std::size_t>(scan.place)];
  Plane& plane = *place.plane;
  Hot hot = load(scan.bits);
  plane.predictor += take_dc(hot, scan.bits, *plane.dc, scan.good);
  refill(hot, scan.bits);
  store(hot, scan.bits);
  scan.ac = plane.ac;
  scan.coefficient = 1;
  scan.target = nullptr;
  const int column = scan.mcu * plane.horizontal + place.x;
  if (scan.wanted && column >= plane.first_block && column < plane.last_block) {
    const auto side = static_cast<std::size_t>(plane.side);
    scan.target = plane.target + static_cast<std::size_t>(place.y) * side * plane.stride +
                  static_cast<std::size_t>(column) * side;
    std::memset(scan.block, 0, kBlockSize * sizeof(std::int16_t));
    scan.block[0] = static_cast<std::int16_t>(static_cast<std::uint16_t>(plane.predictor));
  }
  return true;
}

/// Ends a block and begins the next. False at the end of the row, or of the good bytes.
HWY_NOINLINE bool next_block(Scan& scan) {
  if (scan.coefficient >= kBadBlock) {
    scan.good = false;
    return false;
  }
  if (scan.target != nullptr) put_off(scan);
  if (++scan.place == scan.place_count) {
    scan.place = 0;
    if (++scan.mcu == scan.mcus) {
      flush(scan);
      return false;
    }
  }
  return begin_block(scan);
}

/// What does not lie in the tables: one symbol, or the rest of a block that ends amidst a run.
HWY_NOINLINE void take_slowly(Scan& scan, bool all) {
  do {
    scan.coefficient = take_run(scan.bits, scan.ac->code, scan.coefficient, scan.block);
  } while (all && scan.coefficient < kBlockSize);
  refill_slowly(scan.bits);
}

/// A scan whose state is in registers.
struct Lane {
  explicit HWY_INLINE Lane(Scan& of) : scan(&of) { enter(); }

  HWY_INLINE void enter() {
    hot = load(scan->bits);
    k = scan->coefficient;
    ac = scan->ac;
  }
  HWY_INLINE void leave() {
    store(hot, scan->bits);
    scan->coefficient = k;
  }
  HWY_INLINE void fill() { refill(hot, scan->bits); }

  /// Takes a run of symbols. False if it was the row's last. REQUIRES: 31 bits, or 10 and then it
  /// sees that there are more.
  HWY_INLINE bool step() {
    const std::uint64_t window = hot.window;
    const std::uint64_t index = window >> (64 - kTableBits);
    const std::uint64_t run = ac->runs[index];
    const auto length = static_cast<unsigned>(run & 255);
    std::int16_t* block = scan->block + k;
    if (HWY_UNLIKELY(length == 0)) {
      const unsigned code = ac->code.short_codes[index];
      const unsigned size = code >> 8 & 15;
      const unsigned zeros = code >> 12;
      if (HWY_LIKELY(size != 0 && k + zeros < kBlockSize)) {
        // A symbol with a long value.
        fill();
        drop(hot, code & 255);
        block[zeros] = static_cast<std::int16_t>(take_value(hot, size));
        k += zeros + 1;
        fill();
      } else {
        leave();
        take_slowly(*scan, false);
        enter();
      }
      return k < kBlockSize || next();
    }
    put_values(run, block + (run >> 16 & 255));
    drop(hot, length);
    const unsigned before = k;
    k += static_cast<unsigned>(run >> 8 & 255);
    if (k < kBlockSize) return true;
    if (HWY_UNLIKELY(k != kBlockSize && k - kEndOfBlock >= kBlockSize)) {
      // The block ended amidst the run.
      hot.window = window;
      hot.count += static_cast<int>(length);
      k = before;
      leave();
      take_slowly(*scan, true);
      enter();
    }
    return next();
  }
  HWY_INLINE bool next() {
    leave();
    if (!next_block(*scan)) return false;
    enter();
    return true;
  }

  Scan* scan;
  Hot hot;
  unsigned k;
  const AcTable* ac;
};

/// Steps for which the bits of a full window last.
constexpr int kSteps = 56 / kTableBits - 1;

void begin_row_here(Scan& scan, bool wanted) {
  scan.wanted = wanted;
  scan.mcu = 0;
  scan.place = 0;
  // Bad bytes, or no AC to take: the row ends at once.
  if (!begin_block(scan)) scan.coefficient = kBadBlock;
}

void finish_row_here(Scan& scan) {
  if (!scan.good) return;
  Lane lane(scan);
  for (;;) {
    lane.fill();
    for (int i = 0; i < kSteps; ++i)
      if (!lane.step()) return;
  }
}

Scan* finish_either_here(Scan& a, Scan& b) {
  if (!a.good) return &a;
  if (!b.good) return &b;
  Lane one(a);
  Lane two(b);
  for (;;) {
    one.fill();
    two.fill();
    for (int i = 0; i < kSteps; ++i) {
      if (!one.step()) {
        two.leave();
        return &a;
      }
      if (!two.step()) {
        one.leave();
        return &b;
      }
    }
  }
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

HWY_EXPORT(begin_row_here);
HWY_EXPORT(finish_row_here);
HWY_EXPORT(finish_either_here);

void begin_row(Scan& scan, bool wanted) noexcept {
  HWY_DYNAMIC_DISPATCH(begin_row_here)(scan, wanted);
}

void finish_row(Scan& scan) noexcept {
  HWY_DYNAMIC_DISPATCH(finish_row_here)(scan);
}

Scan& finish_either(Scan& a, Scan& b) noexcept {
  return *HWY_DYNAMIC_DISPATCH(finish_either_here)(a, b);
}

HWY_EXPORT(has_vectors_here);

bool has_vectors() noexcept {
  return HWY_DYNAMIC_DISPATCH(has_vectors_here)();
}

}  // namespace penstock::jpeg
#endif  // HWY_ONCE
