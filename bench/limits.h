// What no pipeline can pass: the part of its work that a library does, and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace penstock::bench {

/// The seed of the runs that the limits are beside: with it both sides take the same crops.
constexpr std::uint64_t kSeed = 7;

using Files = std::vector<std::vector<std::byte>>;

/// The bytes of a folder's images, in the order of `images(folder)`, which ordinals count.
Files load_images(const std::string& folder);

/// Seconds that libjpeg-turbo takes for the regions that `shuffle`, `random_resized_crop(224)`
/// would take of each file, on `threads` threads.
double region_loop(const Files& files, std::uint64_t epochs, int threads);
/// The same of whole images, at the largest power-of-two scale that keeps both sides at or above
/// `side`; 0: unscaled.
double whole_loop(const Files& files, std::uint64_t epochs, int threads, int side);

enum class ReadWay {
  in_order,   ///< one piece after the other
  at_random,  ///< likewise, in a random order
  direct,     ///< past the page cache, eight at once
};
struct ReadLoop {
  double seconds = 0;
  std::uint64_t bytes = 0;
};
/// All of these files by pread, `piece` bytes at a time; for `direct` a multiple of 4096.
ReadLoop read_loop(const std::vector<std::string>& paths, std::uint64_t epochs, std::size_t piece,
                   ReadWay way);

}  // namespace penstock::bench
