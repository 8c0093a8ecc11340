#include "pipeline/image/resize_kernels.h"

#include <algorithm>
#include <cstring>

#include "pipeline/codec/simd.h"
#include "pipeline/image/resize_windows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pipeline/image/resize_kernels.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace penstock::image {
namespace HWY_NAMESPACE {
namespace {

// Emulated vectors, and vectors of unknown size, are of no use here.
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || HWY_HAVE_SCALABLE

void run_plain(const HorizontalPass& pass, const std::uint8_t* row, std::int16_t* planes) {
  const Filter& filter = *pass.filter;
  const std::size_t plane = plane_width(filter.count());
  const auto channels = static_cast<std::size_t>(pass.channels);
  for (int i = 0; i < filter.count(); ++i) {
    const std::span<const std::int16_t> weights = filter.weights(i);
    const auto first = static_cast<std::size_t>(filter.first(i) - filter.span_begin());
    for (std::size_t c = 0; c < channels; ++c) {
      std::int32_t sum = 1 << (filter.bits() - 1);
      const std::uint8_t* pixel = row + first * channels + c;
      for (std::size_t t = 0; t < weights.size(); ++t) {
        if (weights[t] != 0) sum += weights[t] * pixel[t * channels];
      }
      planes[c * plane + static_cast<std::size_t>(i)] =
          static_cast<std::int16_t>(sum >> filter.bits() << 7);
    }
  }
}

HorizontalPass::Run prepare_blocks(HorizontalPass&) {
  return run_plain;
}

void mix(const Filter& filter, int row, const std::int16_t* const* rows, std::size_t size,
         std::uint8_t* out) {
  const std::span<const std::int16_t> weights = filter.weights(row);
  for (std::size_t i = 0; i < size; ++i) {
    std::int32_t sum = 0;
    for (std::size_t t = 0; t < weights.size(); ++t) {
      sum = std::min(sum + ((rows[t][i] * weights[t] + 0x4000) >> 15), 32767);
    }
    out[i] = static_cast<std::uint8_t>(std::min(sum + 64, 32767) >> 7);
  }
}

void mix_many(const Filter& filter, int row, const std::int16_t* const* rows, std::size_t size,
              std::uint8_t* out) {
  const std::span<const std::int16_t> weights = filter.weights(row);
  for (std::size_t i = 0; i < size; ++i) {
    std::int32_t sum = 1 << (filter.bits() - 1);
    for (std::size_t t = 0; t < weights.size(); ++t) sum += (rows[t][i] >> 7) * weights[t];
    out[i] = static_cast<std::uint8_t>(sum >> filter.bits());
  }
}

VerticalPass choose_mix(const Filter& filter) {
  return filter.precision() == Precision::q15 ? mix : mix_many;
}

#else

namespace hn = hwy::HWY_NAMESPACE;

// This kernel takes one pixel at a time, in the four lanes of a block of 128 bits (red, green,
// blue, nothing). It works for any scale and any target. The blocks of a vector hold pixels that
// are a group apart.

constexpr std::size_t kBlockBytes = 16;
constexpr std::size_t kTableBytes = 32;  // of a pixel and four taps: weights 0 1 0 1…, 2 3 2 3…

#if HWY_MAX_BYTES >= 32
using Bytes = hn::FixedTag<std::uint8_t, 32>;
#else
using Bytes = hn::FixedTag<std::uint8_t, 16>;
#endif
using Shorts = hn::Repartition<std::int16_t, Bytes>;
using Words = hn::Repartition<std::int32_t, Bytes>;
using Block = hn::FixedTag<std::uint8_t, 16>;
constexpr std::size_t kBlocks = hn::MaxLanes(Bytes()) / kBlockBytes;
constexpr std::size_t kGroup = 4 * kBlocks;  // pixels

/// Returns the sums of the products of neighbouring pairs.
HWY_INLINE hn::Vec<Words> mul_pairs(hn::Vec<Shorts> a, hn::Vec<Shorts> b) {
  const Words words;
  hn::Vec<Words> upper = hn::Zero(words);
  const hn::Vec<Words> lower = hn::ReorderWidenMulAccumulate(words, a, b, hn::Zero(words), upper);
#if HWY_ARCH_X86
  return lower;  // there the pairs' sums are complete
#else
  return hn::Add(hn::ConcatEven(words, upper, lower), hn::ConcatOdd(words, upper, lower));
#endif
}

/// Loads a block from each of kBlocks places.
HWY_INLINE hn::Vec<Bytes> load_blocks(const std::uint8_t* row, const std::uint32_t* offsets) {
#if HWY_MAX_BYTES >= 32
  const Block block;
  return hn::Combine(Bytes(), hn::LoadU(block, row + offsets[4]),
                     hn::LoadU(block, row + offsets[0]));
#else
  return hn::LoadU(Bytes(), row + offsets[0]);
#endif
}

/// Stores halves of `pairs`, which are the even and then the odd values of four pixels: (r0 r1)(r2
/// r3)(g0 g1)(g2 g3) in each block.
HWY_INLINE void store_halves(hn::Vec<Words> pairs, std::int16_t* lower, std::int16_t* upper) {
#if HWY_MAX_BYTES >= 32
  const hn::FixedTag<std::uint64_t, 2> half;
  const auto both = hn::BitCast(hn::FixedTag<std::uint64_t, 4>(), pairs);
  const auto first = hn::LowerHalf(half, both);
  const auto second = hn::UpperHalf(half, both);
  const auto low = hn::InterleaveLower(half, first, second);
  const auto high = hn::InterleaveUpper(half, first, second);
  hn::StoreU(low, half, reinterpret_cast<std::uint64_t*>(lower));
  if (upper != nullptr) hn::StoreU(high, half, reinterpret_cast<std::uint64_t*>(upper));
#else
  const hn::FixedTag<std::int16_t, 4> quarter;
  const auto values = hn::BitCast(Shorts(), pairs);
  hn::StoreU(hn::LowerHalf(quarter, values), quarter, lower);
  if (upper != nullptr) hn::StoreU(hn::UpperHalf(quarter, values), quarter, upper);
#endif
}

/// `kChunks`: the number of groups of four taps, or 0 for any number.
template <int kChannels, std::size_t kChunks>
void run_blocks(const HorizontalPass& pass, const std::uint8_t* row, std::int16_t* planes) {
  const Bytes bytes;
  const Shorts shorts;
  const Words words;
  const Filter& filter = *pass.filter;
  const auto count = static_cast<std::size_t>(filter.count());
  const std::size_t plane = plane_width(filter.count());
  const std::size_t chunks = kChunks == 0 ? static_cast<std::size_t>(pass.chunks) : kChunks;
  const int bits = filter.bits();
  const auto* offsets = reinterpret_cast<const std::uint32_t*>(pass.table.get());
  const auto* weights =
      reinterpret_cast<const std::int16_t*>(pass.table.get() + plane * sizeof(std::uint32_t));
  constexpr std::uint8_t N = 0x80;
  alignas(16) static constexpr std::uint8_t kSpread[2][2][16] = {
      {{0, N, 1, N, N, N, N, N, N, N, N, N, N, N, N, N},
       {2, N, 3, N, N, N, N, N, N, N, N, N, N, N, N, N}},
      {{0, N, 3, N, 1, N, 4, N, 2, N, 5, N, N, N, N, N},
       {6, N, 9, N, 7, N, 10, N, 8, N, 11, N, N, N, N, N}}};
  const auto first_pair = hn::LoadDup128(bytes, kSpread[kChannels == 3][0]);
  const auto second_pair = hn::LoadDup128(bytes, kSpread[kChannels == 3][1]);
  const auto half = hn::Set(words, 1 << (bits - 1));
  for (std::size_t x = 0; x < count; x += kGroup) {
    hn::Vec<Words> sums[4];
    for (std::size_t j = 0; j < 4; ++j) {
      const std::uint8_t* from = row;
      const std::int16_t* w = weights + (x + kBlocks * j) * chunks * (kTableBytes / 2);
      hn::Vec<Words> sum = half;
      for (std::size_t k = 0; k < chunks; ++k, from += 4 * kChannels) {
        const auto pixels = load_blocks(from, offsets + x + j);
        const auto a = hn::BitCast(shorts, hn::TableLookupBytesOr0(pixels, first_pair));
        const auto b = hn::BitCast(shorts, hn::TableLookupBytesOr0(pixels, second_pair));
        sum = hn::Add(sum, mul_pairs(a, hn::Load(shorts, w)));
        w += hn::MaxLanes(shorts);
        sum = hn::Add(sum, mul_pairs(b, hn::Load(shorts, w)));
        w += hn::MaxLanes(shorts);
      }
      sums[j] = hn::ShiftRightSame(sum, bits);
    }
    // Combines two values of 15 bits in each word.
    const auto even = hn::Or(hn::ShiftLeft<7>(sums[0]), hn::ShiftLeft<23>(sums[1]));
    const auto odd = hn::Or(hn::ShiftLeft<7>(sums[2]), hn::ShiftLeft<23>(sums[3]));
    std::int16_t* out = planes + x;
    store_halves(hn::InterleaveLower(words, even, odd), out,
                 kChannels == 3 ? out + plane : nullptr);
    if (kChannels == 3) {
      store_halves(hn::InterleaveUpper(words, even, odd), out + 2 * plane, nullptr);
    }
  }
}

HorizontalPass::Run prepare_blocks(HorizontalPass& pass) {
  const Filter& filter = *pass.filter;
  const std::size_t plane = plane_width(filter.count());
  const auto chunks = static_cast<std::size_t>(pass.chunks);
  std::byte* table = pass.reserve(plane * (sizeof(std::uint32_t) + chunks * kTableBytes));
  auto* offsets = reinterpret_cast<std::uint32_t*>(table);
  auto* weights = reinterpret_cast<std::int16_t*>(table + plane * sizeof(std::uint32_t));
  std::memset(table, 0, plane * (sizeof(std::uint32_t) + chunks * kTableBytes));
  for (int i = 0; i < filter.count(); ++i) {
    const auto x = static_cast<std::size_t>(i);
    offsets[x] =
        static_cast<std::uint32_t>((filter.first(i) - filter.span_begin()) * pass.channels);
    const std::span<const std::int16_t> from = filter.weights(i);
    const std::size_t in_group = x % kGroup;
    // Pixel `in_group` is block in_group / 4 of the group's vector in_group % 4.
    const std::size_t vector = x - in_group + in_group % 4 * kBlocks;
    std::int16_t* out = weights + vector * chunks * (kTableBytes / 2) + in_group / 4 * 8;
    for (std::size_t t = 0; t < from.size(); ++t) {
      std::int16_t* pair = out + t / 2 * hn::MaxLanes(Shorts());
      for (std::size_t lane = 0; lane < 4; ++lane) pair[2 * lane + t % 2] = from[t];
    }
  }
  if (chunks == 1) return pass.channels == 3 ? run_blocks<3, 1> : run_blocks<1, 1>;
  return pass.channels == 3 ? run_blocks<3, 0> : run_blocks<1, 0>;
}

template <int kTaps>
void mix_few(const Filter& filter, int row, const std::int16_t* const* rows, std::size_t size,
             std::uint8_t* out) {
  const std::int16_t* weights = filter.weights(row).data();
  const int taps = filter.taps();
  const hn::ScalableTag<std::int16_t> shorts;
  const hn::Rebind<std::uint8_t, decltype(shorts)> bytes;
  const auto half = hn::Set(shorts, 64);
  constexpr int kLeast = kTaps == 0 ? 4 : kTaps;
  const auto w0 = hn::Set(shorts, weights[0]);
  const auto w1 = hn::Set(shorts, kLeast > 1 ? weights[1] : 0);
  const auto w2 = hn::Set(shorts, kLeast > 2 ? weights[2] : 0);
  const auto w3 = hn::Set(shorts, kLeast > 3 ? weights[3] : 0);
  for (std::size_t i = 0; i < size; i += hn::Lanes(shorts)) {
    auto sum = hn::MulFixedPoint15(hn::Load(shorts, rows[0] + i), w0);
    const auto add = [&](int t, auto w) HWY_ATTR {
      sum = hn::SaturatedAdd(sum, hn::MulFixedPoint15(hn::Load(shorts, rows[t] + i), w));
    };
    if (kLeast > 1) add(1, w1);
    if (kLeast > 2) add(2, w2);
    if (kLeast > 3) add(3, w3);
    if (kTaps == 0) {
      for (int t = 4; t < taps; ++t) add(t, hn::Set(shorts, weights[t]));
    }
    const auto value = hn::ShiftRight<7>(hn::SaturatedAdd(sum, half));
    hn::StoreU(hn::DemoteTo(bytes, value), bytes, out + i);
  }
}

/// Adds in 32 bits, with the values as they are.
void mix_many(const Filter& filter, int row, const std::int16_t* const* rows, std::size_t size,
              std::uint8_t* out) {
  const hn::ScalableTag<std::int32_t> words;
  const hn::Rebind<std::int16_t, decltype(words)> shorts;
  const hn::Rebind<std::uint8_t, decltype(words)> bytes;
  const std::span<const std::int16_t> weights = filter.weights(row);
  const auto half = hn::Set(words, 1 << (filter.bits() - 1));
  for (std::size_t i = 0; i < size; i += hn::Lanes(words)) {
    auto sum = half;
    for (std::size_t t = 0; t < weights.size(); ++t) {
      const auto values = hn::PromoteTo(words, hn::ShiftRight<7>(hn::Load(shorts, rows[t] + i)));
      sum = hn::Add(sum, hn::Mul(values, hn::Set(words, weights[t])));
    }
    hn::StoreU(hn::DemoteTo(bytes, hn::ShiftRightSame(sum, filter.bits())), bytes, out + i);
  }
}

VerticalPass choose_mix(const Filter& filter) {
  if (filter.precision() == Precision::exact) return mix_many;
  switch (filter.taps()) {
    case 1:
      return mix_few<1>;
    case 2:
      return mix_few<2>;
    case 3:
      return mix_few<3>;
    case 4:
      return mix_few<4>;
    default:
      return mix_few<0>;
  }
}

#endif  // targets with vectors

HorizontalPass::Run prepare_any(HorizontalPass& pass) {
  return prepare_blocks(pass);
}

std::int64_t this_target() {
  return HWY_TARGET;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace penstock::image
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace penstock::image {

HWY_EXPORT(this_target);
HWY_EXPORT(prepare_any);
HWY_EXPORT(choose_mix);

std::byte* HorizontalPass::reserve(std::size_t bytes) {
  if (table_size < bytes) {
    table_size = 0;
    table = hwy::AllocateAligned<std::byte>(bytes);
    if (!table) throw std::bad_alloc();
    table_size = bytes;
  }
  return table.get();
}

void HorizontalPass::prepare(const Filter& wanted, int wanted_channels) {
  const bool windows = avx3_dl_supported();
  const std::int64_t target = windows ? 0 : HWY_DYNAMIC_DISPATCH(this_target)();
  if (filter == &wanted && version_ == wanted.version() && channels == wanted_channels &&
      target_ == target) {
    return;
  }
  filter = &wanted;
  version_ = wanted.version();
  channels = wanted_channels;
  target_ = -1;  // until all memory is there
  chunks = (wanted.taps() + 3) / 4;
  run_ = windows ? prepare_windows(*this) : nullptr;
  if (run_ == nullptr) run_ = HWY_DYNAMIC_DISPATCH(prepare_any)(*this);
  target_ = target;
}

VerticalPass vertical_pass(const Filter& filter) {
  return HWY_DYNAMIC_DISPATCH(choose_mix)(filter);
}

}  // namespace penstock::image
#endif  // HWY_ONCE
