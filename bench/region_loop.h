// The limits to which image pipelines and decoders are compared: loops of libjpeg-turbo and nothing
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
/// same power-of-two scale, row by row into one buffer that stays in cache. It does not resize,
/// check or report errors: a bad file aborts the process. Used by one thread.
class RegionLoop {
 public:
  explicit RegionLoop(int size, RandomResizedCropOptions options = {});
  ~RegionLoop();

  /// Returns the number of pixels decoded. `rng`: the op's generator for the element, as
  /// WorkContext::rng returns it.
  std::size_t decode(std::span<const std::byte> jpeg, Rng rng, std::uint64_t ordinal);
  /// Decodes the whole image, at the largest power-of-two scale that keeps both sides at or above
  /// `side`; 0: at full scale.
  std::size_t decode_whole(std::span<const std::byte> jpeg, int side = 0);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Decodes the Huffman codes of a JPEG and nothing else.
void read_coefficients(std::span<const std::byte> jpeg);

}  // namespace penstock::bench
