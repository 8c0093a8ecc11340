// Images as they are sent: the planes of u8 that their values are computed from.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <penstock/shape.h>
#include <penstock/spec.h>

#include "pipeline/engine/memory/slots.h"
#include "pipeline/image/finish.h"
#include "pipeline/stage/element_ref.h"

namespace penstock::remote {

/// The rows of one component whose values are f32, f16 or bf16 and are computed from u8. A worker
/// makes the planes, and the run computes the values. Both sides know from the graph which
/// components these are. Thread-safe.
class Pixels {
 public:
  /// REQUIRES: the format has one of these dtypes, and its number of channels is that of the rows.
  Pixels(const image::OutputFormat& format, Shape values);

  /// Returns the number of values in a row, which is the number of its pixels.
  std::size_t count() const noexcept { return count_; }
  /// Returns the shape of the planes: [channels, height, width].
  Shape planes() const;
  /// Computes the values of a row.
  void finish(const std::byte* planes, std::byte* row) const noexcept;

 private:
  image::OutputFormat format_;
  Shape values_;
  std::size_t count_;
};

/// One entry for each component of rows; empty where values travel as they are.
using PixelsOfRows = std::vector<std::optional<Pixels>>;
/// Returns the pixels of the rows that these items become. A component has some if an image op
/// makes it, and if no op that might change it follows. All entries are empty if the items are not
/// all made by one program.
PixelsOfRows pixels_of(std::span<const ElementRef> items, const SlotLayout& layout);

/// Returns the spec of rows that hold planes where there are pixels.
Spec spec_of(const PixelsOfRows& pixels, const Spec& rows);
/// Returns a program that makes such rows instead of those that `program` makes.
std::unique_ptr<Program> unfinished(const Program& program, const PixelsOfRows& pixels);

}  // namespace penstock::remote
