#include "pipeline/image/resize_windows.h"

#include <algorithm>
#include <cstring>

#include <hwy/detect_targets.h>

#if HWY_ARCH_X86
// GCC 12's own intrinsics read variables that they leave uninitialised on purpose (its PR 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#endif

namespace penstock::image {

#if HWY_ARCH_X86

// Functions name the features that they need themselves. Highway's AVX3_DL also enables AVX-VNNI,
// which not every such machine has.
namespace {

// Handles sixteen pixels of a plane at a time. One permutation of 64 or 128 bytes moves four taps
// to each lane. Two dot products multiply them by the weights' high and low bytes.

constexpr std::size_t kLanes = 16;
constexpr std::size_t kNarrow = 64;
constexpr std::size_t kWide = 128;

struct Group {
  std::uint8_t indices[64];
  std::uint32_t offset;
  std::uint32_t unused[15];
};

struct Weights {
  std::int8_t high[64];
  std::int8_t low[64];
};

/// `kChunks`: the number of groups of four taps, or 0 for any number. `kWide`: windows of 128
/// bytes, otherwise of 64.
template <int kChannels, int kChunks, bool kWide>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")]] void run_windows(
    const HorizontalPass& pass, const std::uint8_t* row, std::int16_t* planes) {
  const std::size_t plane = plane_width(pass.filter->count());
  const std::size_t groups = plane / kLanes;
  const int chunks = kChunks == 0 ? pass.chunks : kChunks;
  const auto* group = reinterpret_cast<const Group*>(pass.table.get());
  const auto* weights = reinterpret_cast<const Weights*>(group + groups);
  const int bits = pass.filter->bits();
  const __m512i half = _mm512_set1_epi32(1 << (bits - 1));
  const __m128i shift = _mm_cvtsi32_si128(bits - 7);
  const __m512i mask = _mm512_set1_epi32(~127);
  const __m512i one = _mm512_set1_epi8(1);
  for (std::size_t g = 0; g < groups; ++g, ++group) {
    const std::uint8_t* from = row + group->offset;
    const __m512i indices = _mm512_load_si512(group->indices);
    __m512i high[kChannels];
    __m512i low[kChannels];
    for (int c = 0; c < kChannels; ++c) {
      high[c] = _mm512_setzero_si512();
      low[c] = half;
    }
    for (int k = 0; k < chunks; ++k, from += 4 * kChannels, ++weights) {
      const __m512i first = _mm512_loadu_si512(from);
      const __m512i second = kWide ? _mm512_loadu_si512(from + 64) : first;
      const __m512i w_high = _mm512_load_si512(weights->high);
      const __m512i w_low = _mm512_load_si512(weights->low);
      __m512i index = indices;
      for (int c = 0; c < kChannels; ++c) {
        const __m512i taps = kWide ? _mm512_permutex2var_epi8(first, index, second)
                                   : _mm512_permutexvar_epi8(index, first);
        high[c] = _mm512_dpbusd_epi32(high[c], taps, w_high);
        low[c] = _mm512_dpbusd_epi32(low[c], taps, w_low);
        index = _mm512_add_epi8(index, one);
      }
    }
    for (std::size_t c = 0; c < kChannels; ++c) {
      const __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(high[c], 8), low[c]);
      const __m512i value = _mm512_and_si512(_mm512_sra_epi32(sum, shift), mask);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(planes + c * plane + g * kLanes),
                          _mm512_cvtepi32_epi16(value));
    }
  }
}

template <int kChannels>
HorizontalPass::Run choose(int chunks, bool wide) {
  if (chunks == 1) return wide ? run_windows<kChannels, 1, true> : run_windows<kChannels, 1, false>;
  return wide ? run_windows<kChannels, 0, true> : run_windows<kChannels, 0, false>;
}

}  // namespace

HorizontalPass::Run prepare_windows(HorizontalPass& pass) {
  const Filter& filter = *pass.filter;
  const auto channels = static_cast<std::size_t>(pass.channels);
  const auto chunks = static_cast<std::size_t>(pass.chunks);
  const std::size_t groups = plane_width(filter.count()) / kLanes;
  const std::size_t size = groups * (sizeof(Group) + chunks * sizeof(Weights));
  std::byte* table = pass.reserve(size);
  std::memset(table, 0, size);
  std::size_t widest = 0;
  auto* group = reinterpret_cast<Group*>(table);
  auto* weights = reinterpret_cast<Weights*>(group + groups);
  for (std::size_t g = 0; g < groups; ++g, ++group, weights += chunks) {
    const int begin = static_cast<int>(g * kLanes);
    const int end = std::min(begin + static_cast<int>(kLanes), filter.count());
    const int base = std::min(filter.first(begin), filter.first(end - 1));
    group->offset = static_cast<std::uint32_t>((base - filter.span_begin()) * pass.channels);
    for (int i = begin; i < end; ++i) {
      const auto lane = static_cast<std::size_t>(i - begin);
      const std::size_t first = static_cast<std::size_t>(filter.first(i) - base) * channels;
      widest = std::max(widest, first + 4 * channels);
      for (std::size_t t = 0; t < 4; ++t) {
        group->indices[4 * lane + t] = static_cast<std::uint8_t>(first + t * channels);
      }
      const std::span<const std::int16_t> from = filter.weights(i);
      for (std::size_t t = 0; t < from.size(); ++t) {
        const int high = (from[t] + 128) >> 8;
        weights[t / 4].high[4 * lane + t % 4] = static_cast<std::int8_t>(high);
        weights[t / 4].low[4 * lane + t % 4] = static_cast<std::int8_t>(from[t] - high * 256);
      }
    }
  }
  if (widest > kWide) return nullptr;
  const bool wide = widest > kNarrow;
  return pass.channels == 3 ? choose<3>(pass.chunks, wide) : choose<1>(pass.chunks, wide);
}

#else

HorizontalPass::Run prepare_windows(HorizontalPass&) {
  return nullptr;
}

#endif  // HWY_ARCH_X86

}  // namespace penstock::image
