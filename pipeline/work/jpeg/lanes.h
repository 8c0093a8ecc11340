// Sixteen scans at once, in the lanes of AVX-512.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "pipeline/work/jpeg/lane_bytes.h"
#include "pipeline/work/jpeg/lane_table.h"

namespace penstock::jpeg {

inline constexpr std::size_t kLaneCount = 16;
/// Blocks that a lane decodes before they are transformed: whole MCUs.
inline constexpr int kStripBlocks = 120;
/// Shares of each kind of memory; no powers of two, so that caches keep them apart.
inline constexpr std::size_t kLaneBytesStride = kLaneBytesRoom + 64;
inline constexpr std::size_t kStripStride = (kStripBlocks + 1) * kBlockSize;
inline constexpr std::size_t kLaneTables = 6;  // a DC and an AC table for three components
inline constexpr std::size_t kLaneTablesStride = kLaneTables * kLaneTableSize + 16;

/// What vectors hold, by lane. Positions count from the beginning of all lanes' memory.
struct alignas(64) LaneVectors {
  using Values = std::array<std::uint32_t, kLaneCount>;
  Values bit{};     ///< the next one
  Values limit{};   ///< from there on the lane has to stop
  Values block{};   ///< the current one's first coefficient
  Values place{};   ///< the next coefficient's in it
  Values left{};    ///< blocks to the end of the strip, this one included
  Values planes{};  ///< two bits for each block of an MCU from this one on: where its tables are
  Values rotate{};  ///< where the bits of the current one go when it ends
  Values tables{};  ///< the first of the lane's set
  std::uint32_t active = 0;  ///< lanes that have blocks left
};

/// Decodes scans, a row of MCUs of each at a time. Not synchronised.
class Lanes {
 public:
  /// True if the machine has the vectors for it; nothing else may be called otherwise.
  static bool supported() noexcept;

  Lanes();

  std::size_t count() const noexcept { return count_; }
  /// Takes a scan that stands in front of a row. REQUIRES: count() < kLaneCount.
  void add(Scan& scan) noexcept;
  /// Decodes rows until a scan comes to the end of its own: that one, which must be given another
  /// row (`begin_row`) or be removed before the next call. Its bits stand nowhere in particular
  /// unless its row was the last. REQUIRES: count() > 0.
  Scan& finish_any() noexcept;
  /// Lets go of the scan that was returned last, for good…
  void remove(Scan& scan) noexcept;
  /// …or so that others can go on with it: its bits stand behind the row. REQUIRES: all was good.
  void hand_back(Scan& scan) noexcept;

  // For the loop over vectors.

  struct Lane {
    Scan* scan = nullptr;
    LaneBytes bytes;
    std::array<const Code*, kLaneTables> codes{};
    std::size_t tables = 0;                       ///< its set
    std::array<std::uint32_t, 3> plane_tables{};  ///< of each component: 0, 1 or 2
    int strip_mcus = 0;
    bool wanted = false;  ///< blocks of the strip are
  };
  /// What a symbol outside of the tables comes to.
  struct Taken {
    std::uint32_t bit = 0;  ///< the next one
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
  /// Tables of all components of an image. Lanes whose images have the same codes share a set,
  /// which then stays in the nearest cache.
  struct TableSet {
    std::array<HuffmanSpec, kLaneTables> built;  ///< what its tables hold
    std::size_t users = 0;                       ///< lanes
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
  std::uint32_t begin_ = 0;  ///< lanes whose next strip has to be begun
  std::uint32_t ended_ = 0;  ///< lanes whose strip has ended
  std::unique_ptr<std::uint8_t[]> memory_;
  std::uint8_t* bytes_ = nullptr;
  std::uint32_t* tables_ = nullptr;
  std::int16_t* coefficients_ = nullptr;
};

}  // namespace penstock::jpeg
