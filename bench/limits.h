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
/// Seconds that pread takes for all of these files, one after the other, `piece` bytes at a time.
/// `bytes` becomes what was read.
double pread_loop(const std::vector<std::string>& paths, std::uint64_t epochs, std::size_t piece,
                  std::uint64_t& bytes);

}  // namespace penstock::bench
