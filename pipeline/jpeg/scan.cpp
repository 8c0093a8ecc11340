#include "pipeline/jpeg/scan.h"

#include <bit>
#include <cstring>

#include "pipeline/jpeg/bits.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pipeline/jpeg/scan.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "pipeline/jpeg/idct_shrunk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::jpeg {
namespace HWY_NAMESPACE {
namespace {

/// The part of Bits that stays in registers.
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

/// Takes the next `size` bits as a value, which is negative if it begins with a 0. REQUIRES: the
/// window has so many bits.
HWY_INLINE int take_value(Hot& hot, unsigned size) {
  const auto raw = static_cast<int>(hot.window >> 1 >> (63 - size));
  const int negative = static_cast<int>(~hot.window >> 63);
  drop(hot, size);
  return raw - (negative << size) + negative;
}

/// Writes the five values of a run as coefficients. It writes eight values.
HWY_INLINE void put_values(const std::uint64_t& run, std::int16_t* out) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || HWY_HAVE_SCALABLE
  for (int i = 0; i < 5; ++i)
    out[i] = static_cast<std::int8_t>(static_cast<std::uint8_t>(run >> (24 + 8 * i)));
#else
  static_assert(std::endian::native == std::endian::little);
  const hn::FixedTag<std::int8_t, 8> bytes;
  const Row row;
  const auto all = hn::PromoteTo(row, hn::LoadU(bytes, reinterpret_cast<const std::int8_t*>(&run)));
  const hn::Repartition<std::uint8_t, Row> raw;
  hn::StoreU(hn::BitCast(row, hn::ShiftRightBytes<6>(raw, hn::BitCast(raw, all))), row, out);
#endif
}

/// Returns a difference of DCs. Sets `good` to false if the bits are not a code.
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

/// Puts the block off, and transforms the block that was put off before.
HWY_NOINLINE void put_off(Scan& scan) {
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
    if (plane.batch.count > 0) finish_batch(plane);
}

/// Takes symbols that are not in the tables: one symbol, or the rest of a block that ends within a
/// run.
HWY_NOINLINE void take_slowly(Scan& scan, bool all) {
  do {
    scan.coefficient = take_run(scan.bits, scan.ac->code, scan.coefficient, scan.block);
  } while (all && scan.coefficient < kBlockSize);
}

/// Ends a row. Always returns false.
HWY_NOINLINE bool end_row(Scan& scan) {
  flush(scan);
  return false;
}

/// A scan whose state is in registers.
class Lane {
 public:
  explicit HWY_INLINE Lane(Scan& scan) : scan_(scan) { enter(); }

  HWY_INLINE void leave() {
    store(hot_, scan_.bits);
    scan_.coefficient = k();
  }
  HWY_INLINE void fill() { refill(hot_, scan_.bits); }

  enum class Step { on, ended, unfit };
  /// Takes a run of symbols. REQUIRES: kTableBits bits.
  HWY_INLINE Step step() {
    window_ = hot_.window;
    const std::uint64_t& entry = ac_->runs[window_ >> (64 - kTableBits)];
    run_ = entry;
    const auto length = static_cast<unsigned>(run_ & 255);
    if (HWY_UNLIKELY(length == 0)) return Step::unfit;
    put_values(entry, out_ + (run_ >> 16 & 255));
    drop(hot_, length);
    out_ += run_ >> 8 & 255;
    // Blocks begin at multiples of their room. So these bits tell that the position is not below
    // 64.
    constexpr std::uintptr_t kBeyond = (kBlockRoom - kBlockSize) * sizeof(std::int16_t);
    const bool on = (reinterpret_cast<std::uintptr_t>(out_) & kBeyond) == 0;
    return HWY_LIKELY(on) ? Step::on : Step::ended;
  }

  /// Takes one symbol after a step that was unfit. Returns false if it was the row's last.
  HWY_INLINE bool take_unfit() {
    const unsigned code = ac_->code.short_codes[hot_.window >> (64 - kTableBits)];
    const unsigned size = code >> 8 & 15;
    const unsigned at = k() + (code >> 12);
    if (HWY_LIKELY(size != 0 && at < kBlockSize)) {
      // Only the symbol's value is too long.
      fill();
      drop(hot_, code & 255);
      out_ += code >> 12;
      *out_++ = static_cast<std::int16_t>(take_value(hot_, size));
    } else {
      leave();
      take_slowly(scan_, false);
      enter();
    }
    return k() < kBlockSize || next();
  }

  /// Ends the block after the step in which it ended. Returns false if it was the row's last.
  HWY_INLINE bool end() {
    if (HWY_UNLIKELY(k() != kBlockSize && k() - kEndOfBlock >= kBlockSize)) {
      // The block ended within the run.
      out_ -= run_ >> 8 & 255;
      hot_.window = window_;
      hot_.count += static_cast<int>(run_ & 255);
      leave();
      take_slowly(scan_, true);
      enter();
    }
    return next();
  }

  /// Takes the DC of the block at the scan's place. Returns false if the bytes are bad.
  HWY_INLINE bool begin() {
    if (HWY_UNLIKELY(scan_.restart_interval > 0 && scan_.place == 0)) {
      if (scan_.restart_left == 0) {
        leave();
        if (!begin_interval(scan_)) return scan_.good = false;
        enter();
      }
      --scan_.restart_left;
    }
    const Scan::Place& place = scan_.places[static_cast<std::size_t>(scan_.place)];
    Plane& plane = *place.plane;
    ac_ = plane.ac;
    scan_.ac = ac_;
    out_ = scan_.block + 1;
    plane.predictor += take_dc(hot_, scan_.bits, *plane.dc, scan_.good);
    scan_.target = nullptr;
    const int column = scan_.mcu * plane.horizontal + place.x;
    if (scan_.wanted && column >= plane.first_block && column < plane.last_block) {
      const auto side = static_cast<std::size_t>(plane.side);
      scan_.target = plane.target + static_cast<std::size_t>(place.y) * side * plane.stride +
                     static_cast<std::size_t>(column) * side;
      std::memset(out_ - 1, 0, kBlockSize * sizeof(*out_));
      out_[-1] = static_cast<std::int16_t>(static_cast<std::uint16_t>(plane.predictor));
    }
    return true;
  }

 private:
  /// Returns the number of the next coefficient. It is kBlockSize or more if the block has ended.
  HWY_INLINE unsigned k() const { return static_cast<unsigned>(out_ - scan_.block); }
  HWY_INLINE void enter() {
    hot_ = load(scan_.bits);
    out_ = scan_.block + scan_.coefficient;
    ac_ = scan_.ac;
  }

  HWY_INLINE bool next() {
    if (HWY_UNLIKELY(k() == kBadBlock)) return scan_.good = false;
    if (scan_.target != nullptr) put_off(scan_);
    if (++scan_.place == scan_.place_count) {
      scan_.place = 0;
      if (++scan_.mcu == scan_.mcus) {
        leave();
        return end_row(scan_);
      }
    }
    return begin();
  }

  Scan& scan_;
  Hot hot_;
  const AcTable* ac_;
  std::int16_t* out_;      // the next coefficient
  std::uint64_t run_ = 0;  // of the last step; window_ is the window before it
  std::uint64_t window_ = 0;
};

/// The number of steps for which the bits of a full window suffice.
constexpr int kSteps = 56 / kTableBits;

void finish_row_here(Scan& scan) {
  if (!scan.good) return;
  Lane lane(scan);
  if (scan.coefficient == 0 && !lane.begin()) return;
  for (;;) {
    lane.fill();
    for (int i = 0; i < kSteps; ++i) {
      const Lane::Step step = lane.step();
      if (step == Lane::Step::unfit) goto unfit;
      if (step == Lane::Step::ended) goto ended;
    }
    continue;
  unfit:
    if (!lane.take_unfit()) return;
    continue;
  ended:
    if (!lane.end()) return;
  }
}

Scan* finish_either_here(Scan& a, Scan& b) {
  if (!a.good) return &a;
  if (!b.good) return &b;
  Lane one(a);
  if (a.coefficient == 0 && !one.begin()) return &a;
  Lane two(b);
  if (b.coefficient == 0 && !two.begin()) {
    one.leave();
    return &b;
  }
  for (;;) {
    one.fill();
    two.fill();
    for (int i = 0; i < kSteps; ++i) {
      const Lane::Step first = one.step();
      if (first == Lane::Step::unfit) goto first_unfit;
      if (first == Lane::Step::ended) goto first_ended;
      const Lane::Step second = two.step();
      if (second == Lane::Step::unfit) goto second_unfit;
      if (second == Lane::Step::ended) goto second_ended;
    }
    continue;
  first_unfit:
    if (one.take_unfit()) continue;
    goto first_done;
  first_ended:
    if (one.end()) continue;
  first_done:
    two.leave();
    return &a;
  second_unfit:
    if (two.take_unfit()) continue;
    goto second_done;
  second_ended:
    if (two.end()) continue;
  second_done:
    one.leave();
    return &b;
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

HWY_EXPORT(finish_row_here);
HWY_EXPORT(finish_either_here);

namespace {

void prepare(Scan& scan) noexcept {
  for (int i = 0; i < scan.plane_count; ++i)
    prepare_runs(*scan.planes[static_cast<std::size_t>(i)].ac);
}

}  // namespace

void finish_row(Scan& scan) noexcept {
  prepare(scan);
  HWY_DYNAMIC_DISPATCH(finish_row_here)(scan);
}

Scan& finish_either(Scan& a, Scan& b) noexcept {
  prepare(a);
  prepare(b);
  return *HWY_DYNAMIC_DISPATCH(finish_either_here)(a, b);
}

HWY_EXPORT(has_vectors_here);

bool has_vectors() noexcept {
  return HWY_DYNAMIC_DISPATCH(has_vectors_here)();
}

}  // namespace penstock::jpeg
#endif  // HWY_ONCE
