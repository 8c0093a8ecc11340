#include "pipeline/jpeg/lane_table.h"

#include <algorithm>
#include <array>

namespace penstock::jpeg {

namespace {

constexpr std::uint32_t kOne = 1U << 13;
constexpr std::uint32_t kEnd = 1U << 15;
constexpr unsigned kMaxByte = 7;  // bits of values that fit a byte

constexpr unsigned bits_of(std::uint32_t entry) noexcept {
  return entry & 31;
}
constexpr bool is_whole(std::uint32_t entry) noexcept {
  return entry != 0 && (entry >> 5 & 15) == 0;
}

/// Fills a table with codes in their order, one behind the other.
class Filler {
 public:
  explicit Filler(LaneTable out) : out_(out.data()), end_(out.data() + out.size()) {}

  /// Adds a code of `length` bits whose value has `size` bits.
  void add(unsigned length, unsigned size, std::uint32_t entry) noexcept {
    const unsigned all = length + size;
    if (size > kMaxByte || all > kLaneBits) return fill(length, entry | all | size << 5);
    if (size == 0) return fill(length, entry | length);
    const int half = 1 << (size - 1);
    for (int raw = 0; raw < 2 * half; ++raw) {
      const int value = raw >= half ? raw : raw + 1 - 2 * half;
      fill(all, entry | all | static_cast<std::uint32_t>(value & 255) << 16);
    }
  }
  void finish() noexcept { std::fill(out_, end_, 0U); }

 private:
  void fill(unsigned length, std::uint32_t entry) noexcept {
    const std::ptrdiff_t count = std::ptrdiff_t{1} << (kLaneBits - length);
    std::fill_n(out_, count, entry);
    out_ += count;
  }

  std::uint32_t* out_;
  std::uint32_t* end_;
};

template <typename EntryOf>
void build_single(const HuffmanSpec& spec, LaneTable out, EntryOf entry_of) noexcept {
  Filler filler(out);
  std::size_t index = 0;
  for (unsigned length = 1; length <= kLaneBits; ++length)
    for (int i = spec.counts[length - 1]; i > 0; --i)
      entry_of(filler, length, spec.symbols[index++]);
  filler.finish();
}

}  // namespace

void build_lane_table(const DcTable& table, LaneTable out) noexcept {
  build_single(table.code.spec, out, [](Filler& filler, unsigned length, unsigned symbol) {
    filler.add(length, symbol, kOne);
  });
}

void build_lane_table(const AcTable& table, LaneTable out) noexcept {
  std::array<std::uint32_t, kLaneTableSize> single;
  build_single(table.code.spec, single, [](Filler& filler, unsigned length, unsigned symbol) {
    const unsigned run = symbol >> 4;
    const unsigned size = symbol & 15;
    if (size == 0 && run != 15) return filler.add(length, 0, kEnd);
    filler.add(length, size, kOne | run << 9);
  });
  const auto behind = [&](std::size_t index, std::uint32_t entry) {
    const std::uint32_t next = single[index << bits_of(entry) & (kLaneTableSize - 1)];
    const bool fits = is_whole(next) && bits_of(entry) + bits_of(next) <= kLaneBits;
    return fits ? next : 0;
  };
  for (std::size_t i = 0; i < kLaneTableSize; ++i) {
    std::uint32_t entry = single[i];
    if (is_whole(entry) && (entry & kEnd) == 0) {
      std::uint32_t next = behind(i, entry);
      if (next != 0 && (next & kEnd) == 0 && (next >> 9 & 15) == 0) {
        entry += bits_of(next) + kOne + (next >> 16 << 24);
        next = behind(i, entry);
      }
      if ((next & kEnd) != 0) entry += bits_of(next) + kEnd;
    }
    out[i] = entry;
  }
}

}  // namespace penstock::jpeg
