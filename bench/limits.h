// Upper limits for pipelines: the part of their work that libraries do, and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace penstock::bench {

/// The seed of the runs that are compared with the limits. With it, both sides take the same crops.
constexpr std::uint64_t kSeed = 7;

using Files = std::vector<std::vector<std::byte>>;

/// Returns the bytes of a folder's images, in the order of `images(folder)`. Ordinals count in this
/// order.
Files load_images(const std::string& folder);

/// Returns the seconds that libjpeg-turbo takes on `threads` threads to decode the regions that
/// `shuffle` and `random_resized_crop(224)` would take of each file.
double region_loop(const Files& files, std::uint64_t epochs, int threads);
/// Returns the seconds for whole images, at the largest power-of-two scale that keeps both sides at
/// or above `side`; 0: unscaled.
double whole_loop(const Files& files, std::uint64_t epochs, int threads, int side);

enum class ReadWay {
  in_order,   ///< one piece after the other
  at_random,  ///< one piece after the other, in a random order
  direct,     ///< past the page cache, eight at once
};
struct ReadLoop {
  double seconds = 0;
  std::uint64_t bytes = 0;
};
/// Reads all of these files with pread, `piece` bytes at a time; for `direct` a multiple of 4096.
ReadLoop read_loop(const std::vector<std::string>& paths, std::uint64_t epochs, std::size_t piece,
                   ReadWay way);

}  // namespace penstock::bench
