// Limits on the sizes that untrusted bytes may ask for.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock {

/// Bounds for lengths that are read from files. Each length is checked against these, and against
/// the bytes that remain, before it is used. The defaults are far above real data; raise one only
/// for data that you know.
struct Limits {
  std::uint64_t max_record_bytes = 256ULL << 20;  ///< one record or archive member
  std::uint64_t max_pixels = 100'000'000;         ///< width x height of an image
  int max_scans = 100;                            ///< of a progressive JPEG
  std::uint64_t max_codec_bytes = 256ULL << 20;   ///< working memory of one image decoder
  /// Output per input byte of a compressed shard (deflate's own bound: 1,032).
  std::uint64_t max_inflate_ratio = 1100;
  std::uint64_t max_name_bytes = 4096;     ///< a member's name
  int max_nesting = 32;                    ///< messages within messages
  std::uint64_t max_members = 10'000'000;  ///< records of one shard
};

/// The most ways in which a listing may reach the same folder through links. Folders that link to
/// each other would give an endless list of files.
inline constexpr int kMostWays = 64;
/// The most stages from a source to the end of a graph. Walks over a graph are as deep.
inline constexpr int kMostStages = 1000;
/// The most stages that a run opens, each as often as it is used.
inline constexpr int kMostPlaces = 100'000;

}  // namespace penstock
