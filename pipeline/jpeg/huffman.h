// Huffman tables in the forms that the entropy decoder reads.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "pipeline/jpeg/header.h"

namespace penstock::jpeg {

/// The number of bits that index the tables. More bits resolve more symbols at once, but the tables
/// of two components must fit the first-level cache together with all other data.
inline constexpr int kTableBits = 10;
inline constexpr std::size_t kTableSize = std::size_t{1} << kTableBits;

/// A prefix code, with the tables that find its symbols.
struct Code {
  /// Indexed by the next kTableBits bits: the code's length and, in the upper byte, its symbol. 0
  /// if the code is longer, or if the bits are not a code.
  std::array<std::uint16_t, kTableSize> short_codes;
  /// Codes of n bits, followed by any 16 - n bits, are below limits[n]. limits[17] is above all
  /// codes.
  std::array<std::uint32_t, 18> limits;
  /// Add this to a code of n bits to get its symbol's index.
  std::array<std::int32_t, 17> offsets;
  HuffmanSpec spec;
};

/// An AC table. `runs` is indexed by the next kTableBits bits. It describes all symbols that lie
/// completely in these bits, together with the bits of their values. From the lowest byte up, an
/// entry holds:
///
///     1 byte   the bits that they take; 0: not even one symbol fits
///     1 byte   the coefficients that they stand for, including zeros, plus kEndOfBlock if the last
///              symbol ends the block
///     1 byte   the zeros in front
///     5 bytes  the next five coefficients
struct AcTable {
  alignas(64) std::array<std::uint64_t, kTableSize> runs;  ///< valid after prepare_runs
  bool has_runs = false;
  Code code;
};
void prepare_runs(AcTable& table) noexcept;
inline constexpr unsigned kEndOfBlock = 128;

struct DcTable {
  Code code;
};

/// A cache of tables by content, because files often have the tables of recent files. Not
/// synchronised. A table stays valid until the next `begin`, and beyond that if it is used again.
class TableCache {
 public:
  /// Call it before you ask for the tables of a file, of which there are at most 8.
  void begin() noexcept;
  /// Both return null if the spec is not a prefix code that libjpeg-turbo accepts.
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
