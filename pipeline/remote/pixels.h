// Pixels as they are sent: as the u8 that their values were computed from.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "pipeline/engine/slots.h"
#include "pipeline/order/element_ref.h"
#include "pipeline/work/image/finish.h"

namespace penstock::remote {

/// The rows of one component whose values are f32, f16 or bf16 and were computed from u8, by
/// channel. Both sides know it from the graph. Thread-safe.
class Pixels {
 public:
  /// Prepares for rows of `count` values, in as many channels as `format` has. `both_ways`:
  /// `take_back` will be called too. REQUIRES: the format has one of these dtypes.
  Pixels(const image::OutputFormat& format, std::size_t count, bool both_ways);

  /// Returns the number of values in a row, which is the number of its pixels.
  std::size_t count() const noexcept { return count_; }
  /// Computes the pixels whose values these are, to the bit. False if there are no such pixels.
  bool take_back(const std::byte* row, std::uint8_t* pixels) const noexcept;
  /// Computes the values of pixels.
  void finish(const std::uint8_t* pixels, std::byte* row) const noexcept;

 private:
  using Table = std::array<std::uint16_t, 256>;

  const image::OutputFormat format_;
  const std::size_t count_;
  std::array<Table, 3> values_;                      // of 16 bits, by channel and pixel
  std::array<std::vector<std::uint8_t>, 3> pixels_;  // by channel and value
};

/// One entry for each component of rows; empty where values travel as they are.
using PixelsOfRows = std::vector<std::optional<Pixels>>;
/// Returns the pixels of the rows that these items become. All entries are empty if the items are
/// not all made by one program.
PixelsOfRows pixels_of(std::span<const ElementRef> items, const SlotLayout& layout, bool both_ways);

}  // namespace penstock::remote
