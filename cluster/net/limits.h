// Limits for the data that ranks exchange through the rendezvous.
#pragma once

#include <cstddef>
#include <string>

#include <penstock/error.h>

namespace penstock::cluster {

inline constexpr std::size_t kMostBytesOfValue = 1 << 20;
inline constexpr std::size_t kMostBytesOfKey = 1 << 10;
/// The limit for all keys and values together. The addresses that 4,096 ranks tell each other take
/// a hundredth of it.
inline constexpr std::size_t kMostBytesStored = 64 << 20;

/// The limit for a rank's status text.
inline constexpr std::size_t kMostBytesSaid = 16 << 10;

/// Returns an error if a value does not fit in addition to `stored` bytes.
inline Status room_for(const std::string& key, const std::string& value, std::size_t stored = 0) {
  const std::size_t bytes = key.size() + value.size();
  if (key.size() <= kMostBytesOfKey && value.size() <= kMostBytesOfValue &&
      stored + bytes <= kMostBytesStored)
    return {};
  return {ErrorCode::resource_exhausted, "the rendezvous has no room for " + std::to_string(bytes) +
                                             " bytes under a key of " + std::to_string(key.size())};
}

}  // namespace penstock::cluster
