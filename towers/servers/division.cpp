#include "towers/servers/division.h"

#include <algorithm>
#include <numeric>

namespace penstock::towers {

std::vector<int> divide_by_bytes(std::span<const std::uint64_t> bytes, int servers) {
  std::vector<std::size_t> largest_first(bytes.size());
  std::iota(largest_first.begin(), largest_first.end(), std::size_t{0});
  std::ranges::stable_sort(largest_first,
                           [&](std::size_t a, std::size_t b) { return bytes[a] > bytes[b]; });
  std::vector<std::uint64_t> load(static_cast<std::size_t>(servers));
  std::vector<int> server(bytes.size());
  for (const std::size_t variable : largest_first) {
    const auto least = std::ranges::min_element(load);
    *least += bytes[variable];
    server[variable] = static_cast<int>(least - load.begin());
  }
  return server;
}

}  // namespace penstock::towers
