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
  const auto sum = [&]<Sums kWhat>() {
    with_type(gpu, [&]<typename T>(T) {
      gpu.run(SumsPlan<T, kWhat>{sums.in.as<T>(),
                                 sums.gradient != nullptr ? sums.gradient->as<T>() : nullptr,
                                 sums.gates, sums.center, sums.inverse, parted, bands, parts},
              parts);
    });
  };
  switch (sums.what) {
    case Sums::moments:
      sum.operator()<Sums::moments>();
      break;
    case Sums::squares:
      sum.operator()<Sums::squares>();
      break;
    case Sums::gradients:
      sum.operator()<Sums::gradients>();
      break;
  }
  const auto total = [&]<int kTogether>() {
    gpu.run(TotalsPlan<kTogether>{parted, totals.as<double>(), parts * bands.width / sums.channels,
                                  sums.channels},
            2 * sums.channels / kTogether);
  };
  sums.channels % 4 == 0 ? total.operator()<4>() : total.operator()<1>();
}

}  // namespace penstock::towers
