// The limits that image pipelines and decoders are measured against: libjpeg-turbo and nothing
// else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <penstock/image.h>
#include <penstock/rng.h>

namespace penstock::bench {

/// Decodes the region that `decode_image().random_resized_crop(size)` takes of each JPEG, at the
/// same power-of-two scale, row by row into one buffer that stays in cache. No resize, no checks,
/// no errors: a bad file aborts the process. Used by one thread.
class RegionLoop {
 public:
  explicit RegionLoop(int size, RandomResizedCropOptions options = {});
  ~RegionLoop();

  /// Returns the pixels decoded. `rng` is that of the op for the element, as
  /// WorkContext::rng gives it.
  std::size_t decode(std::span<const std::byte> jpeg, Rng rng, std::uint64_t ordinal);
  /// The whole image, at the largest power-of-two scale that keeps both sides at or above `side`;
  /// 0: at full scale.
  std::size_t decode_whole(std::span<const std::byte> jpeg, int side = 0);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Nothing but its Huffman codes are decoded.
void read_coefficients(std::span<const std::byte> jpeg);

}  // namespace penstock::bench
