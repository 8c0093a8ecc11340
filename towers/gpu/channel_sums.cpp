#include "towers/gpu/channel_sums.h"

#include "towers/gpu/layers.h"

namespace penstock::towers {

void sum_channels(Gpu& gpu, const ChannelSums& sums, Array& totals) {
  constexpr std::int64_t kMostParts = 512;
  const Bands bands = Bands::of(sums.rows * sums.channels, sums.channels,
                                static_cast<std::int64_t>(size_of(gpu.dtype())), kMostParts);
  const std::int64_t parts = bands.parts();
  Array& scratch = gpu.scratch(static_cast<std::size_t>(2 * parts * bands.width) * sizeof(double));
  auto* const parted = reinterpret_cast<double*>(scratch.bytes());
  with_type(gpu, [&]<typename T>(T) {
    gpu.run(
        SumsPlan<T>{sums.in.as<T>(), sums.gradient != nullptr ? sums.gradient->as<T>() : nullptr,
                    sums.center, sums.inverse, parted, bands, parts, sums.what},
        parts);
  });
  gpu.run(
      TotalsPlan{parted, totals.as<double>(), parts * bands.width / sums.channels, sums.channels},
      2 * sums.channels);
}

}  // namespace penstock::towers
