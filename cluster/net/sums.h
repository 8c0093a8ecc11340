// Algorithms that sum values over ranks: which rank gets which pieces, and which adds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cluster/net/links.h"

namespace penstock::cluster {

/// The sums of a group of ranks. Used by one thread. All ranks make the same calls with as many
/// values. Each function replaces the values by their sums over ranks, the same bits on all. Throws
/// what `Links` throws.
class Sums {
 public:
  explicit Sums(Links& links) : links_(links) {}

  /// Sends all values to all ranks, and each rank adds them up itself. That needs one message to
  /// each other rank instead of two, which is faster for few values. Adds by the rule for sums
  /// (towers/tree_sum.h).
  void at_once(std::span<float> values);
  /// Adds by the rule for sums, where each rank adds up one piece for all ranks.
  void in_order(std::span<float> values);
  /// Passes pieces around a ring, where each rank adds its own values, and then passes the sums
  /// around.
  void in_a_ring(std::span<float> values);
  /// As `in_order`, but all values sent are rounded to bfloat16: each rank's values, and the sums.
  void in_bf16(std::span<float> values);

  /// Sends each rank's piece of `all` to all others. Rank r's piece begins at r * bytes.
  void spread(std::span<std::byte> all, std::size_t bytes);

 private:
  /// Bytes [pieces[r], pieces[r + 1]) belong to rank r.
  using Pieces = std::vector<std::size_t>;
  Pieces pieces_of(std::size_t values, std::size_t bytes_each) const;
  std::uint64_t blocks_in(const Pieces& pieces) const noexcept;
  /// Sends each rank its piece, and receives the others' values for this rank's piece. `parts` gets
  /// one piece from each rank, in the order of ranks.
  void deal(void* values, const Pieces& pieces, void* parts);
  void spread_few(std::span<std::byte> all, std::size_t bytes);
  void spread_pieces(void* all, const Pieces& pieces);
  /// Adds up values [begin, end) in scratch_, where each rank has `count` values, into those of the
  /// first rank.
  void add_up(std::size_t count, std::size_t begin, std::size_t end);

  Links& links_;
  std::vector<float> scratch_;
  std::vector<float*> parts_;
  std::vector<std::uint16_t> rounded_, arrived_;
  std::vector<std::byte> turned_;
};

}  // namespace penstock::cluster
