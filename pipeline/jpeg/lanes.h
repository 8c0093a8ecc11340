// Sixteen scans at once, in the lanes of AVX-512.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "pipeline/jpeg/lane_bytes.h"
#include "pipeline/jpeg/lane_table.h"

namespace penstock::jpeg {

inline constexpr std::size_t kLaneCount = 16;
/// The most blocks that a lane decodes before they are transformed. They form whole MCUs.
inline constexpr int kStripBlocks = 120;
/// Each lane's share of each kind of memory. They are not powers of two, so that lanes use
/// different cache sets.
inline constexpr std::size_t kLaneBytesStride = kLaneBytesRoom + 64;
inline constexpr std::size_t kStripStride = (kStripBlocks + 1) * kBlockSize;
inline constexpr std::size_t kLaneTables = 6;  // a DC and an AC table for three components
inline constexpr std::size_t kLaneTablesStride = kLaneTables * kLaneTableSize + 16;

/// The vectors, by lane. Positions count from the beginning of the memory of all lanes.
struct alignas(64) LaneVectors {
  using Values = std::array<std::uint32_t, kLaneCount>;
  Values bit{};    ///< the next bit
  Values limit{};  ///< the bit from which on the lane must stop
  Values block{};  ///< the first coefficient of the current block
  Values place{};  ///< place of the next coefficient in the block
  Values left{};   ///< blocks to the end of the strip, including this one
  /// Two bits for each block of an MCU from this one on, which select its tables.
  Values planes{};
  /// Where the bits of the current block go at its end.
  Values rotate{};
  Values tables{};           ///< the first table of the lane's set
  std::uint32_t active = 0;  ///< lanes that have blocks left
};

/// A decoder of up to sixteen scans, a row of MCUs of each at a time. Not synchronised.
class Lanes {
 public:
  /// True if the machine has the vectors for it. Otherwise nothing else may be called.
  static bool supported() noexcept;

  Lanes();

  std::size_t count() const noexcept { return count_; }
  /// Takes a scan that stands in front of a row. REQUIRES: count() < kLaneCount.
  void add(Scan& scan) noexcept;
  /// Decodes rows until a scan comes to the end of its row, and returns that scan. Before the next
  /// call, give it another row (`begin_row`) or remove it. The position of its bits is undefined,
  /// unless its row was the last. REQUIRES: count() > 0.
  Scan& finish_any() noexcept;
  /// Removes the scan that was returned last, for good…
  void remove(Scan& scan) noexcept;
  /// …or so that other code can continue with it: its bits stand behind the row. REQUIRES: the scan
  /// is good.
  void hand_back(Scan& scan) noexcept;

  // Used by the loop over vectors.

  struct Lane {
    Scan* scan = nullptr;
    LaneBytes bytes;
    std::array<const Code*, kLaneTables> codes{};
    std::size_t tables = 0;                       ///< number of its set
    std::array<std::uint32_t, 3> plane_tables{};  ///< for each component: 0, 1 or 2
    int strip_mcus = 0;
    bool wanted = false;  ///< some block of the strip is needed
  };
  /// The result of a symbol that is not in the tables.
  struct Taken {
    std::uint32_t bit = 0;  ///< the next bit
    std::uint32_t place = 0;
    bool ended = false;
  };
  Taken take_slowly(std::size_t lane) noexcept;
  void refill(std::size_t lane) noexcept;
  const std::uint8_t* bytes() const noexcept { return bytes_; }
  const std::uint32_t* tables() const noexcept { return tables_; }
  std::int16_t* coefficients() const noexcept { return coefficients_; }
  LaneVectors& vectors() noexcept { return vectors_; }

 private:
  /// The tables of all components of an image. Lanes whose images have the same codes share a set,
  /// which then stays in the first-level cache.
  struct TableSet {
    std::array<HuffmanSpec, kLaneTables> built;  ///< the codes in its tables
    std::size_t users = 0;                       ///< number of lanes
  };

  std::size_t set_for(std::span<const Code* const> codes) const noexcept;
  void begin_strip(std::size_t lane) noexcept;
  bool end_strip(std::size_t lane) noexcept;
  void fail(std::size_t lane) noexcept;
  void prepare_tables(std::size_t lane) noexcept;
  std::size_t lane_of(const Scan& scan) const noexcept;

  LaneVectors vectors_;
  std::array<Lane, kLaneCount> lanes_;
  std::array<TableSet, kLaneCount> sets_;
  std::size_t count_ = 0;
  std::uint32_t begin_ = 0;  ///< lanes whose next strip must be begun
  std::uint32_t ended_ = 0;  ///< lanes whose strip has ended
  std::unique_ptr<std::uint8_t[]> memory_;
  std::uint8_t* bytes_ = nullptr;
  std::uint32_t* tables_ = nullptr;
  std::int16_t* coefficients_ = nullptr;
};

}  // namespace penstock::jpeg
