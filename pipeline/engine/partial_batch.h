// A batch that is being filled.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <penstock/error.h>

#include "pipeline/engine/slots.h"

namespace penstock {

/// Which elements have the rows of a slot. Neighbours that were given rows together are kept as
/// one range, so that a group of them costs what one element does. Not synchronised.
class PartialBatch {
 public:
  /// Neighbouring elements in neighbouring rows.
  struct RowRange {
    std::uint64_t sequence = 0;  ///< of the first element
    std::uint32_t row = 0;       ///< its row
    std::uint32_t count = 0;
    bool done = false;
    Status status{};  ///< of a single element that has failed
  };

  void open(std::uint64_t number, Ref<Slot> slot);
  /// Lets go of the slot; keeps memory for the next.
  void close();

  std::uint64_t number() const noexcept { return number_; }
  Slot& slot() noexcept { return *slot_; }
  const std::vector<RowRange>& ranges() const noexcept { return ranges_; }
  bool empty() const noexcept { return ranges_.empty(); }
  /// Elements that still find a row in the batch.
  std::size_t lacks() const noexcept { return rows_ - held_; }
  /// True if elements are under way.
  bool pending() const noexcept { return pending_ > 0; }
  /// True if a failed element has kept its row.
  bool failed() const noexcept { return failed_ > 0; }
  /// REQUIRES: !empty().
  std::uint64_t last() const noexcept { return ranges_.back().sequence + ranges_.back().count - 1; }

  /// Gives rows to the elements from `sequence` on, at most `most` of them: as many as find rows
  /// that lie together. REQUIRES: most <= lacks().
  RowRange give(std::uint64_t sequence, std::size_t most, bool done);
  /// A range that was given, and begins with this element, is done.
  void finish(std::uint64_t sequence);
  /// An element that is done has failed: it keeps its row, with its error, until it is dropped.
  void fail(std::uint64_t sequence, Status status);
  /// Frees the rows of an element, of the first elements of the first range, or of the first
  /// ranges.
  void drop(std::uint64_t sequence);
  void drop_elements(std::uint32_t count);
  void drop_ranges(std::size_t count);
  /// The elements in order, as a batch.
  Element batch();

 private:
  std::size_t find(std::uint64_t sequence) const;
  std::size_t single_out(std::uint64_t sequence);
  void free_rows(std::uint32_t row, std::uint32_t count);

  std::uint64_t number_ = 0;
  Ref<Slot> slot_;
  std::vector<RowRange> ranges_;  // in order
  std::size_t rows_ = 0;
  std::uint32_t fresh_ = 0;           // the first row that was never given
  std::uint32_t room_ = 0;            // rows, with the spare ones
  std::vector<std::uint32_t> freed_;  // rows, the first to be freed in front
  std::size_t reused_ = 0;            // of those
  std::size_t held_ = 0;              // rows, by elements
  std::size_t pending_ = 0;           // ranges not done
  std::size_t failed_ = 0;            // ranges with an error
  std::vector<std::uint32_t> order_;  // of rows, for a batch with gaps
};

}  // namespace penstock
