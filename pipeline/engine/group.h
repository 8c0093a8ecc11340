// Neighbouring items that are carried out together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "pipeline/engine/executor.h"

namespace penstock {

/// Neighbours on their way through the arena. Recycled.
struct Group {
  std::size_t count = 0;
  std::vector<Item> items;
  std::vector<WorkItem> work;
  std::vector<std::pair<std::size_t, Status>>
      failures;  // in batches only: which items failed, in order

  std::vector<Place> places;  // in batches only
  std::uint64_t first = 0;    // sequence number of the first item
  std::optional<GroupContext> context;
  std::size_t parts = 0;  // guarded by the edge's mutex: that have yet to be read
  bool lost = false;      // guarded by the edge's mutex: a part could not be tried
  // Guarded by the edge's mutex:
  bool done = false;
  bool ready = false;      // read, so that it waits for nothing
  bool starved = false;    // waits to be made again, one by one
  bool redoing = false;    // that is going on
  std::size_t redone = 0;  // items of a starved group that are made, from the first on
  std::size_t taken = 0;   // results that were delivered, where they are single values

  /// Of a starved group: what the element that is made next takes in all, if it is a codec that
  /// found no room; else 0.
  std::uint64_t starved_codecs = 0;

  std::uint64_t read_bytes = 0;  // that reading the items will take, as far as is known
  /// True if all items are records of one source with the same program: the first of them tells
  /// what holds for all.
  bool alike = false;
  /// True if they are byte strings that are read straight to their places, but for `strays`.
  bool textual = false;
  std::vector<Stray> strays;  // guarded by the edge's mutex until all parts are read

  /// Results that are there, of single values: guarded by the edge's mutex.
  std::size_t made() const { return done ? count : redone; }
  std::span<const Item> samples() const { return {items.data(), alike ? 1 : count}; }
  std::span<const Item> all_items() const { return {items.data(), count}; }
  std::span<WorkItem> all_work() { return {work.data(), count}; }
};

}  // namespace penstock
