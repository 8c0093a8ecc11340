#include "pipeline/jpeg/lane_steps.h"

#include <bit>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pipeline/jpeg/lane_steps.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "pipeline/jpeg/idct_shrunk-inl.h"

#if HWY_ARCH_X86 && !defined(__clang__)
// GCC 12's own intrinsics read variables that they leave uninitialised on purpose (its PR 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

HWY_BEFORE_NAMESPACE();
namespace penstock::jpeg {
namespace HWY_NAMESPACE {
namespace {

/// Transforms the blocks of a strip that are needed.
void store_strip_here(Scan& scan, std::int16_t* coefficients, int mcus, bool wanted) {
  if (!wanted) {
    for (int mcu = 0; mcu < mcus; ++mcu)
      for (int i = 0; i < scan.place_count; ++i, coefficients += kBlockSize)
        scan.places[static_cast<std::size_t>(i)].plane->predictor +=
            static_cast<std::uint32_t>(*coefficients);
    return;
  }
  for (int mcu = scan.mcu; mcu < scan.mcu + mcus; ++mcu) {
    for (int i = 0; i < scan.place_count; ++i, coefficients += kBlockSize) {
      const Scan::Place& place = scan.places[static_cast<std::size_t>(i)];
      Plane& plane = *place.plane;
      plane.predictor += static_cast<std::uint32_t>(*coefficients);
      const int column = mcu * plane.horizontal + place.x;
      if (column < plane.first_block || column >= plane.last_block) continue;
      *coefficients = static_cast<std::int16_t>(static_cast<std::uint16_t>(plane.predictor));
      const auto side = static_cast<std::size_t>(plane.side);
      finish_block(plane, coefficients,
                   plane.target + static_cast<std::size_t>(place.y) * side * plane.stride +
                       static_cast<std::size_t>(column) * side);
    }
  }
}

void flush_here(Scan& scan) {
  for (Plane& plane : scan.planes)
    if (plane.batch.count > 0) finish_batch(plane);
}

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86

void copy_bytes_here(LaneBytes& bytes) {
  const hn::CappedTag<std::uint8_t, 64> tag;
  const std::size_t size = hn::Lanes(tag);
  const auto stuffed = hn::Set(tag, 0xff);
  const std::uint8_t* next = bytes.next;
  std::uint32_t count = bytes.count;
  while (count<kLaneBytes&& static_cast<std::size_t>(bytes.end - next)> size) {
    const auto some = hn::LoadU(tag, next);
    hn::StoreU(some, tag, bytes.buffer + count);
    const std::intptr_t plain = hn::FindFirstTrue(tag, hn::Eq(some, stuffed));
    if (plain < 0) {
      next += size;
      count += static_cast<std::uint32_t>(size);
      continue;
    }
    next += plain;
    count += static_cast<std::uint32_t>(plain);
    if (next[1] != 0) break;
    next += 2;
    ++count;
  }
  bytes.next = next;
  bytes.count = count;
}

/// Decodes until some lanes have no blocks left, and returns these. It uses intrinsics because
/// Highway 1.0 has no masks, gathers of bytes or scatters of pairs like these. In each step, every
/// lane takes up to two entries from the 25 bits or more that the step loads.
std::uint32_t run_here(Lanes& lanes) {
  LaneVectors& v = lanes.vectors();
  const auto load = [](const LaneVectors::Values& values)
                        HWY_ATTR { return _mm512_load_si512(values.data()); };
  const auto store = [](LaneVectors::Values& values, __m512i from)
                         HWY_ATTR { _mm512_store_si512(values.data(), from); };
  const std::uint8_t* const bytes = lanes.bytes();
  const std::uint32_t* const tables = lanes.tables();
  std::int16_t* const coefficients = lanes.coefficients();
  const auto active = static_cast<__mmask16>(v.active);
  const __m512i one = _mm512_set1_epi32(1);
  const __m512i three = _mm512_set1_epi32(3);
  const __m512i fifteen = _mm512_set1_epi32(15);
  const __m512i word = _mm512_set1_epi32(32);
  const __m512i block_size = _mm512_set1_epi32(kBlockSize);
  const __m512i swap =
      _mm512_broadcast_i32x4(_mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12));
  // Moves the two coefficients to the upper bytes of two words.
  const __m512i spread = _mm512_broadcast_i32x4(
      _mm_setr_epi8(-1, 2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15));
  const __m512i rotate = load(v.rotate);
  const __m512i first_table = load(v.tables);
  __m512i limit = load(v.limit);
  __m512i bit = load(v.bit);
  __m512i block = load(v.block);
  __m512i place = load(v.place);
  __m512i left = load(v.left);
  __m512i planes = load(v.planes);
  __m512i table;
  const auto find_table = [&]() HWY_ATTR {
    const __m512i dc = _mm512_add_epi32(
        first_table, _mm512_slli_epi32(_mm512_and_si512(planes, three), kLaneBits + 1));
    table = _mm512_mask_add_epi32(dc, _mm512_test_epi32_mask(place, place), dc,
                                  _mm512_set1_epi32(kLaneTableSize));
  };
  const auto load_bytes = [&]() HWY_ATTR {
    return _mm512_i32gather_epi32(_mm512_srli_epi32(bit, 3), bytes, 1);
  };
  /// Moves the lanes `who` to the place `next`, or to the next block if they are in `ended`.
  const auto advance = [&](__mmask16 who, __m512i next, __mmask16 ended) HWY_ATTR {
    ended = static_cast<__mmask16>(ended & who);
    block = _mm512_mask_add_epi32(block, ended, block, block_size);
    left = _mm512_mask_sub_epi32(left, ended, left, one);
    place = _mm512_mask_mov_epi32(place, who, next);
    place = _mm512_maskz_mov_epi32(_mm512_knot(ended), place);
    const __m512i turned = _mm512_or_si512(
        _mm512_srli_epi32(planes, 2), _mm512_sllv_epi32(_mm512_and_si512(planes, three), rotate));
    planes = _mm512_mask_mov_epi32(planes, ended, turned);
    find_table();
  };
  struct Entry {
    __m512i entry;
    __m512i window;
    __m512i taken;
    __m512i to;  ///< where its coefficients go
    __mmask16 fits;
  };
  const auto look_up = [&](__m512i window) HWY_ATTR {
    const __m512i index = _mm512_add_epi32(_mm512_srli_epi32(window, 32 - kLaneBits), table);
    Entry found;
    found.entry = _mm512_i32gather_epi32(index, tables, 4);
    found.window = window;
    found.taken = _mm512_and_si512(found.entry, _mm512_set1_epi32(31));
    return found;
  };
  /// Takes the entry in those lanes of `who` that can.
  const auto take = [&](Entry& found, __mmask16 who) HWY_ATTR {
    const __m512i entry = found.entry;
    const __m512i zeros = _mm512_and_si512(_mm512_srli_epi32(entry, 9), fifteen);
    const __m512i count = _mm512_and_si512(_mm512_srli_epi32(entry, 13), three);
    const __mmask16 end = _mm512_test_epi32_mask(entry, _mm512_set1_epi32(1 << 15));
    const __m512i at = _mm512_add_epi32(place, zeros);
    const __m512i next = _mm512_add_epi32(at, count);
    const __m512i reach = _mm512_mask_add_epi32(next, end, next, one);
    found.to = _mm512_add_epi32(block, at);
    found.fits = _mm512_mask_cmple_epi32_mask(_mm512_mask_test_epi32_mask(who, entry, entry), reach,
                                              block_size);
    bit = _mm512_mask_add_epi32(bit, found.fits, bit, found.taken);
    advance(found.fits, next,
            static_cast<__mmask16>(end | _mm512_cmpeq_epi32_mask(next, block_size)));
  };
  const auto put = [&](const Entry& found) HWY_ATTR {
    // Values are in the entry, or behind the code. Those behind the code are negative if they begin
    // with a 0.
    const __m512i given = _mm512_srai_epi16(_mm512_shuffle_epi8(found.entry, spread), 8);
    const __m512i size = _mm512_and_si512(_mm512_srli_epi32(found.entry, 5), fifteen);
    const __m512i behind = _mm512_sllv_epi32(found.window, _mm512_sub_epi32(found.taken, size));
    const __m512i raw = _mm512_srlv_epi32(behind, _mm512_sub_epi32(word, size));
    const __m512i offset = _mm512_sub_epi32(_mm512_sllv_epi32(one, size), one);
    const __m512i value =
        _mm512_mask_sub_epi32(raw, _mm512_knot(_mm512_movepi32_mask(behind)), raw, offset);
    const __m512i pair = _mm512_or_si512(_mm512_and_si512(value, _mm512_set1_epi32(0xffff)), given);
    _mm512_mask_i32scatter_epi32(coefficients, found.fits, found.to, pair, 2);
  };

  find_table();
  __m512i stuff = load_bytes();
  for (;;) {
    const __m512i passed = _mm512_and_si512(bit, _mm512_set1_epi32(7));
    Entry first = look_up(_mm512_sllv_epi32(_mm512_shuffle_epi8(stuff, swap), passed));
    take(first, active);
    const auto slow = static_cast<__mmask16>(active & ~first.fits);
    Entry second = look_up(_mm512_sllv_epi32(first.window, first.taken));
    const __m512i used = _mm512_add_epi32(_mm512_add_epi32(passed, first.taken), second.taken);
    take(second, _mm512_mask_cmple_epi32_mask(_mm512_mask_test_epi32_mask(first.fits, left, left),
                                              used, word));
    // Load the next step's bytes now, so that they are there when the rest of this step is done.
    stuff = load_bytes();
    put(first);
    put(second);
    const __mmask16 beyond = _mm512_mask_cmpgt_epu32_mask(active, bit, limit);
    const __mmask16 done = _mm512_mask_testn_epi32_mask(active, left, left);
    if (HWY_LIKELY((slow | beyond | done) == 0)) continue;
    store(v.bit, bit);
    store(v.block, block);
    store(v.place, place);
    store(v.planes, planes);
    store(v.left, left);
    if (slow != 0) {
      __m512i next = place;
      __mmask16 ended = 0;
      for (unsigned rest = slow; rest != 0; rest &= rest - 1) {
        const auto lane = static_cast<std::size_t>(std::countr_zero(rest));
        const auto here = static_cast<__mmask16>(1U << lane);
        const Lanes::Taken taken = lanes.take_slowly(lane);
        bit = _mm512_mask_set1_epi32(bit, here, static_cast<int>(taken.bit));
        next = _mm512_mask_set1_epi32(next, here, static_cast<int>(taken.place));
        if (taken.ended || taken.place == kBlockSize) ended = static_cast<__mmask16>(ended | here);
      }
      advance(slow, next, ended);
    }
    const __mmask16 behind = _mm512_mask_cmpgt_epu32_mask(active, bit, limit);
    if (behind != 0) {
      store(v.bit, bit);
      store(v.left, left);
      for (unsigned rest = behind; rest != 0; rest &= rest - 1)
        lanes.refill(static_cast<std::size_t>(std::countr_zero(rest)));
      bit = load(v.bit);
      left = load(v.left);
      limit = load(v.limit);
    }
    const __mmask16 stopped = _mm512_mask_testn_epi32_mask(active, left, left);
    if (stopped != 0) {
      store(v.bit, bit);
      store(v.block, block);
      store(v.place, place);
      store(v.planes, planes);
      store(v.left, left);
      return stopped;
    }
    stuff = load_bytes();
  }
}

bool supported_here() {
  return true;
}

#else

void copy_bytes_here(LaneBytes&) {}

std::uint32_t run_here(Lanes& lanes) {
  return lanes.vectors().active;
}

bool supported_here() {
  return false;
}

#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace penstock::jpeg
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace penstock::jpeg {

HWY_EXPORT(store_strip_here);
HWY_EXPORT(copy_bytes_here);
HWY_EXPORT(flush_here);
HWY_EXPORT(run_here);
HWY_EXPORT(supported_here);

bool lanes_supported() noexcept {
  return HWY_DYNAMIC_DISPATCH(supported_here)();
}

std::uint32_t run_lanes(Lanes& lanes) noexcept {
  return HWY_DYNAMIC_DISPATCH(run_here)(lanes);
}

void copy_bytes(LaneBytes& bytes) noexcept {
  HWY_DYNAMIC_DISPATCH(copy_bytes_here)(bytes);
}

void store_strip(Scan& scan, std::int16_t* coefficients, int mcus, bool wanted) noexcept {
  HWY_DYNAMIC_DISPATCH(store_strip_here)(scan, coefficients, mcus, wanted);
}

void flush_strips(Scan& scan) noexcept {
  HWY_DYNAMIC_DISPATCH(flush_here)(scan);
}

}  // namespace penstock::jpeg
#endif  // HWY_ONCE
