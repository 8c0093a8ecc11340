// Huffman tables in the forms that the entropy decoder reads.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "pipeline/work/jpeg/header.h"

namespace penstock::jpeg {

/// Bits that index the tables. More bits resolve more symbols at once, but the tables of two
/// components must fit the nearest cache beside everything else.
inline constexpr int kTableBits = 10;
inline constexpr std::size_t kTableSize = std::size_t{1} << kTableBits;

/// A prefix code: all that is needed to find any symbol.
struct Code {
  /// By the next kTableBits bits: the code's length and, in the upper byte, its symbol; 0 where the
  /// code is longer, or none.
  std::array<std::uint16_t, kTableSize> short_codes;
  /// Codes of n bits, followed by any 16 - n bits, are below limits[n]; limits[17] is above all.
  std::array<std::uint32_t, 18> limits;
  /// What to add to a code of n bits to get its symbol's index.
  std::array<std::int32_t, 17> offsets;
  HuffmanSpec spec;
};

/// An AC table. `runs` says, by the next kTableBits bits, what all the symbols say together that
/// lie in these bits whole, the bits of their values included; from the lowest byte up: the bits
/// they take (0: not even one symbol fits); the coefficients they stand for, zeros included, plus
/// kEndOfBlock if the last of them ends the block; zeros in front; and the next five coefficients.
struct AcTable {
  alignas(64) std::array<std::uint64_t, kTableSize> runs;  ///< not before prepare_runs
  bool has_runs = false;
  Code code;
};
void prepare_runs(AcTable& table) noexcept;
inline constexpr unsigned kEndOfBlock = 128;

struct DcTable {
  Code code;
};

/// Tables by content: files often share theirs with the last few. Not synchronised; a table stays
/// where it is until the next `begin`, and then if it is used again.
class TableCache {
 public:
  /// Before the tables of a file, of which there are at most 8, are asked for.
  void begin() noexcept;
  /// Null if the spec is no prefix code as libjpeg-turbo demands it.
  AcTable* ac(const HuffmanSpec& spec);
  const DcTable* dc(const HuffmanSpec& spec);

 private:
  template <typename Table>
  struct Entry {
    std::unique_ptr<Table> table;
    std::uint64_t used = 0;
  };
  template <typename Table, typename Build>
  Table* find(std::vector<Entry<Table>>& entries, const HuffmanSpec& spec, Build build);

  std::vector<Entry<AcTable>> ac_;
  std::vector<Entry<DcTable>> dc_;
  std::uint64_t file_ = 0;
};

}  // namespace penstock::jpeg
