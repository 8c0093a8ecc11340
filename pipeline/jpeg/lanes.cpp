#include "pipeline/jpeg/lanes.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "pipeline/jpeg/bits.h"
#include "pipeline/jpeg/lane_steps.h"

namespace penstock::jpeg {

bool Lanes::supported() noexcept {
  return lanes_supported();
}

Lanes::Lanes() {
  constexpr std::size_t kStrips = kLaneCount * kStripStride * sizeof(std::int16_t) + 64;
  constexpr std::size_t kTables = kLaneCount * kLaneTablesStride * sizeof(std::uint32_t);
  constexpr std::size_t kBytes = kLaneCount * kLaneBytesStride;
  memory_ = std::make_unique_for_overwrite<std::uint8_t[]>(kStrips + kTables + kBytes + 64);
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
  std::uint8_t* at = memory_.get() + (64 - address % 64) % 64;
  coefficients_ = reinterpret_cast<std::int16_t*>(at);
  tables_ = reinterpret_cast<std::uint32_t*>(at + kStrips);
  bytes_ = at + kStrips + kTables;
  // Unused lanes read the memory that they point to, so it must be initialised.
  std::memset(bytes_, 0, kBytes);
  std::memset(tables_, 0, kTables);
  for (std::size_t i = 0; i < kLaneCount; ++i) {
    lanes_[i].bytes.buffer = bytes_ + i * kLaneBytesStride;
    vectors_.bit[i] = static_cast<std::uint32_t>(8 * i * kLaneBytesStride);
    vectors_.tables[i] = static_cast<std::uint32_t>(i * kLaneTablesStride);
  }
}

std::size_t Lanes::lane_of(const Scan& scan) const noexcept {
  std::size_t lane = 0;
  while (lanes_[lane].scan != &scan) ++lane;
  return lane;
}

/// Returns a set that holds these tables, or else one that no lane uses.
std::size_t Lanes::set_for(std::span<const Code* const> codes) const noexcept {
  const auto holds = [codes](const TableSet& set) {
    for (std::size_t i = 0; i < codes.size(); ++i) {
      if (!(set.built[i] == codes[i]->spec)) return false;
    }
    return true;
  };
  auto found = std::find_if(sets_.begin(), sets_.end(), holds);
  if (found == sets_.end()) {
    found = std::find_if(sets_.begin(), sets_.end(),
                         [](const TableSet& set) { return set.users == 0; });
  }
  return static_cast<std::size_t>(found - sets_.begin());
}

void Lanes::prepare_tables(std::size_t lane) noexcept {
  Lane& in = lanes_[lane];
  const Scan& scan = *in.scan;
  std::array<const Plane*, kLaneTables / 2> planes{};  // planes that have tables of their own
  std::uint32_t used = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(scan.plane_count); ++i) {
    const Plane& plane = scan.planes[i];
    std::uint32_t same = 0;
    while (same < used && (planes[same]->dc != plane.dc || planes[same]->ac != plane.ac)) ++same;
    in.plane_tables[i] = same;
    if (same < used) continue;
    in.codes[std::size_t{2} * used] = &plane.dc->code;
    in.codes[std::size_t{2} * used + 1] = &plane.ac->code;
    planes[used++] = &plane;
  }
  in.tables = set_for(std::span(in.codes).first(std::size_t{2} * used));
  TableSet& set = sets_[in.tables];
  ++set.users;
  vectors_.tables[lane] = static_cast<std::uint32_t>(in.tables * kLaneTablesStride);
  std::uint32_t* out = tables_ + in.tables * kLaneTablesStride;
  const auto build = [&](std::size_t at, const auto& table) {
    if (set.built[at] == table.code.spec) return;
    set.built[at] = table.code.spec;
    build_lane_table(table, LaneTable(out + at * kLaneTableSize, kLaneTableSize));
  };
  for (std::size_t i = 0; i < used; ++i) {
    build(2 * i, *planes[i]->dc);
    build(2 * i + 1, *planes[i]->ac);
  }
}

void Lanes::add(Scan& scan) noexcept {
  const auto lane =
      static_cast<std::size_t>(std::find_if(lanes_.begin(), lanes_.end(),
                                            [](const Lane& one) { return one.scan == nullptr; }) -
                               lanes_.begin());
  lanes_[lane].scan = &scan;
  ++count_;
  prepare_tables(lane);
  const auto base = static_cast<std::uint32_t>(8 * lane * kLaneBytesStride);
  vectors_.bit[lane] = base + begin_bytes(lanes_[lane].bytes, scan.bits);
  vectors_.limit[lane] = base + limit_of(lanes_[lane].bytes);
  begin_ |= 1U << lane;
}

void Lanes::hand_back(Scan& scan) noexcept {
  const std::size_t lane = lane_of(scan);
  const auto base = static_cast<std::uint32_t>(8 * lane * kLaneBytesStride);
  leave_bytes(lanes_[lane].bytes, vectors_.bit[lane] - base, scan.bits);
  remove(scan);
}

void Lanes::remove(Scan& scan) noexcept {
  const std::size_t lane = lane_of(scan);
  lanes_[lane].scan = nullptr;
  --sets_[lanes_[lane].tables].users;
  begin_ &= ~(1U << lane);
  --count_;
}

void Lanes::fail(std::size_t lane) noexcept {
  lanes_[lane].scan->good = false;
  vectors_.left[lane] = 0;
}

void Lanes::refill(std::size_t lane) noexcept {
  Lane& in = lanes_[lane];
  if (in.bytes.ended) return fail(lane);
  const auto base = static_cast<std::uint32_t>(8 * lane * kLaneBytesStride);
  vectors_.bit[lane] = base + refill_bytes(in.bytes, vectors_.bit[lane] - base);
  vectors_.limit[lane] = base + limit_of(in.bytes);
  if (vectors_.bit[lane] > vectors_.limit[lane]) fail(lane);
}

Lanes::Taken Lanes::take_slowly(std::size_t lane) noexcept {
  const std::uint32_t slot = 2 * (vectors_.planes[lane] & 3);
  const std::uint32_t place = vectors_.place[lane];
  const std::uint32_t bit = vectors_.bit[lane];
  Bits bits;
  std::memcpy(&bits.window, bytes_ + bit / 8, sizeof(bits.window));
  if constexpr (std::endian::native == std::endian::little)
    bits.window = __builtin_bswap64(bits.window);
  bits.window <<= bit % 8;
  const bool is_dc = place == 0;
  const int symbol = take_symbol(bits, *lanes_[lane].codes[slot + (is_dc ? 0 : 1)]);
  const auto bad = [&]() -> Taken {
    // The lane may continue until it stops: it stands at its block's end and does no harm.
    lanes_[lane].scan->good = false;
    return {bit, kBlockSize, true};
  };
  if (symbol < 0) return bad();
  const int size = symbol & 15;
  const std::uint32_t run = is_dc ? 0 : static_cast<std::uint32_t>(symbol >> 4);
  Taken taken;
  taken.place = place + run + 1;
  if (size == 0 && !is_dc && run != 15) {
    taken.place = place;
    taken.ended = true;
  } else {
    const int value = take_value(bits, size);
    if (taken.place > kBlockSize) return bad();
    if (size > 0) {
      coefficients_[vectors_.block[lane] + taken.place - 1] = static_cast<std::int16_t>(value);
    } else if (is_dc) {
      coefficients_[vectors_.block[lane]] = 0;
    }
  }
  taken.bit = bit + static_cast<std::uint32_t>(-bits.count);
  return taken;
}

void Lanes::begin_strip(std::size_t lane) noexcept {
  Lane& in = lanes_[lane];
  Scan& scan = *in.scan;
  const std::uint32_t bit = 1U << lane;
  begin_ &= ~bit;
  if (scan.restart_interval > 0 && scan.restart_left == 0) {
    const auto base = static_cast<std::uint32_t>(8 * lane * kLaneBytesStride);
    leave_bytes(in.bytes, vectors_.bit[lane] - base, scan.bits);
    if (!begin_interval(scan)) {
      fail(lane);
      ended_ |= bit;
      return;
    }
    vectors_.bit[lane] = base + begin_bytes(in.bytes, scan.bits);
    vectors_.limit[lane] = base + limit_of(in.bytes);
  }
  int mcus = std::min(kStripBlocks / scan.place_count, scan.mcus - scan.mcu);
  if (scan.restart_interval > 0) mcus = std::min(mcus, scan.restart_left);
  in.strip_mcus = mcus;
  int first = scan.mcus;  // MCUs that have needed blocks
  int last = 0;
  std::uint32_t planes = 0;
  for (int i = scan.place_count - 1; i >= 0; --i) {
    const Plane& plane = *scan.places[static_cast<std::size_t>(i)].plane;
    planes = planes << 2 | in.plane_tables[static_cast<std::size_t>(&plane - scan.planes.data())];
    first = std::min(first, plane.first_block / plane.horizontal);
    last = std::max(last, (plane.last_block + plane.horizontal - 1) / plane.horizontal);
  }
  first = std::max(first - scan.mcu, 0);
  last = std::min(last - scan.mcu, mcus);
  in.wanted = scan.wanted && first < last;
  const auto blocks = static_cast<std::size_t>(mcus * scan.place_count);
  const std::size_t at = lane * kStripStride;
  if (in.wanted) {
    const auto mcu_size = static_cast<std::size_t>(scan.place_count) * kBlockSize;
    std::fill_n(coefficients_ + at + static_cast<std::size_t>(first) * mcu_size,
                static_cast<std::size_t>(last - first) * mcu_size, std::int16_t{0});
  }
  vectors_.block[lane] = static_cast<std::uint32_t>(at);
  vectors_.place[lane] = 0;
  vectors_.left[lane] = static_cast<std::uint32_t>(blocks);
  vectors_.planes[lane] = planes;
  vectors_.rotate[lane] = static_cast<std::uint32_t>(2 * (scan.place_count - 1));
  vectors_.active |= bit;
}

/// Ends a strip. Returns true if the row ends with it.
bool Lanes::end_strip(std::size_t lane) noexcept {
  Lane& in = lanes_[lane];
  Scan& scan = *in.scan;
  if (scan.good) {
    store_strip(scan, coefficients_ + lane * kStripStride, in.strip_mcus, in.wanted);
    scan.mcu += in.strip_mcus;
    scan.restart_left -= in.strip_mcus;
    if (scan.mcu < scan.mcus) {
      begin_ |= 1U << lane;
      return false;
    }
  }
  flush_strips(scan);
  if (scan.good && scan.last) {
    const auto base = static_cast<std::uint32_t>(8 * lane * kLaneBytesStride);
    leave_bytes(in.bytes, vectors_.bit[lane] - base, scan.bits);
  }
  // The lane begins another row, unless it is removed.
  begin_ |= 1U << lane;
  return true;
}

Scan& Lanes::finish_any() noexcept {
  for (;;) {
    while (begin_ != 0) begin_strip(static_cast<std::size_t>(std::countr_zero(begin_)));
    if (ended_ == 0) ended_ = run_lanes(*this);
    const auto lane = static_cast<std::size_t>(std::countr_zero(ended_));
    ended_ &= ended_ - 1;
    vectors_.active &= ~(1U << lane);
    if (end_strip(lane)) return *lanes_[lane].scan;
  }
}

}  // namespace penstock::jpeg
