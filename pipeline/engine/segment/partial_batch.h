// A batch that is being filled.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <penstock/error.h>

#include "pipeline/engine/memory/slots.h"

namespace penstock {

/// The assignment of elements to the rows of a slot. Neighbouring elements that got rows together
/// are kept as one range, so that a group of any size costs as much as one element. Not
/// synchronised.
class PartialBatch {
 public:
  /// Neighbouring elements in neighbouring rows.
  struct RowRange {
    std::uint64_t sequence = 0;  ///< sequence number of the first element
    std::uint32_t row = 0;       ///< row of the first element
    std::uint32_t count = 0;
    bool done = false;
    Status status{};  ///< of a single element that failed
  };

  void open(std::uint64_t number, Ref<Slot> slot);
  /// Opens a batch with this many rows, none of which is made. It has no slot.
  void open_hollow(std::uint64_t number, std::size_t rows);
  /// States that only these rows are to be made.
  void make_only(std::uint32_t first, std::uint32_t end) noexcept {
    made_from_ = first;
    made_to_ = end;
  }
  /// Returns the slot, if there is one, and keeps the vectors' memory for the next batch.
  Ref<Slot> close();

  std::uint64_t number() const noexcept { return number_; }
  Slot& slot() noexcept { return *slot_; }
  const std::vector<RowRange>& ranges() const noexcept { return ranges_; }
  bool empty() const noexcept { return ranges_.empty(); }
  /// Returns how many more elements find a row in the batch.
  std::size_t lacks() const noexcept { return rows_ - held_; }
  /// True if some elements are still being made.
  bool pending() const noexcept { return pending_ > 0; }
  /// True if a failed element has kept its row.
  bool failed() const noexcept { return failed_ > 0; }
  bool hollow() const noexcept { return !slot_; }
  /// A number of rows not given yet that are either all to be made or all to be left out.
  struct Stretch {
    bool made = true;
    std::size_t rows = 0;
  };
  Stretch stretch() const noexcept;
  /// REQUIRES: !empty().
  std::uint64_t last() const noexcept { return ranges_.back().sequence + ranges_.back().count - 1; }

  /// Gives rows to the elements from `sequence` on, at most to `most` of them, as long as the rows
  /// are neighbours. REQUIRES: most <= lacks().
  RowRange give(std::uint64_t sequence, std::size_t most, bool done);
  /// Marks as done the given range that begins with this element.
  void finish(std::uint64_t sequence);
  /// Marks a done element as failed. It keeps its row, with its error, until it is dropped.
  void fail(std::uint64_t sequence, Status status);
  /// Free the rows of one element, of the first elements of the first range, or of the first
  /// ranges.
  void drop(std::uint64_t sequence);
  void drop_elements(std::uint32_t count);
  void drop_ranges(std::size_t count);
  /// Returns the elements in order, as a batch.
  Element batch();

 private:
  std::size_t find(std::uint64_t sequence) const;
  std::size_t single_out(std::uint64_t sequence);
  void free_rows(std::uint32_t row, std::uint32_t count);

  std::uint64_t number_ = 0;
  Ref<Slot> slot_;
  std::vector<RowRange> ranges_;  // in order
  std::size_t rows_ = 0;
  std::uint32_t fresh_ = 0;                             // the first row that was never given
  std::uint32_t room_ = 0;                              // rows, including the spare ones
  std::uint32_t made_from_ = 0, made_to_ = UINT32_MAX;  // rows that are to be made
  std::vector<std::uint32_t> freed_;  // rows, in the order in which they were freed
  std::size_t reused_ = 0;            // freed rows that were given again
  std::size_t held_ = 0;              // rows held by elements
  std::size_t pending_ = 0;           // ranges that are not done
  std::size_t failed_ = 0;            // ranges with an error
  std::vector<std::uint32_t> order_;  // order of rows, for a batch with gaps
};

}  // namespace penstock
