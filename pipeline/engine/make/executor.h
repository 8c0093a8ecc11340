// Computes the values of items.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "pipeline/engine/make/group_context.h"
#include "pipeline/engine/make/places.h"
#include "pipeline/stage/counters.h"
#include "pipeline/stage/element_ref.h"

namespace penstock {

/// Execute the programs of `items`, in runs of equal programs, and put the results or errors into
/// `work`. If `places` is not empty, the last step writes its results to these rows of batches. The
/// items do not change, so they can be executed again. Thread-safe.
///
/// There are two functions because reading may wait and computing may not. `read_items` reads the
/// records of items with a blocking source. `compute_items` does everything else.
void read_items(std::span<const ElementRef> items, std::span<WorkItem> work, const Places& places,
                GroupContext& context);
void compute_items(std::span<const ElementRef> items, std::span<WorkItem> work,
                   const Places& places, GroupContext& context);

/// Calls `fail` for each item that was made of a mapped file which has changed by now. Call this
/// after the last use of the elements that `compute_items` made, or was given.
void find_changed_views(std::span<const ElementRef> items, const GroupContext& context,
                        const std::function<void(std::size_t item, Status status)>& fail);

/// An item that cannot be made together with its neighbours: it failed, or its value does not fit.
struct Outlier {
  std::size_t item = 0;
  WorkItem work;
};

/// Does the same for items that are alike, with a columnar program whose results have places. Makes
/// the first items together, in their places except for `outliers`, and returns how many. Returns 0
/// if they should be made one by one.
std::size_t compute_columns(std::span<const ElementRef> items, const Places& places,
                            GroupContext& context, std::vector<Outlier>& outliers);

/// Adds the place to new errors of a step, and updates its counters. Results that do not leave the
/// stage count as time only.
void finish_step(std::span<const ElementRef> items, std::span<WorkItem> work,
                 const std::string& stage, StageCounters* counters, std::int64_t fixed_bytes,
                 std::chrono::steady_clock::time_point start, bool leaves = true);

/// True if all items are records of a source with the same program, and this lives as long as the
/// run.
bool all_alike(std::span<const ElementRef> items) noexcept;
/// True if the items need more than reading records.
bool has_ops(std::span<const ElementRef> items) noexcept;
/// Tell whether an item's source, or one of its ops, waits for a device.
bool reads_block(std::span<const ElementRef> items) noexcept;
bool ops_block(std::span<const ElementRef> items) noexcept;
/// Returns the most elements that an op of the first item prefers to process at once. The first
/// item stands for its neighbours.
std::size_t preferred_group(std::span<const ElementRef> items) noexcept;
/// Returns the bytes that reading these items will take, as far as the sources know.
std::uint64_t read_bytes(std::span<const ElementRef> items);

/// Returns an item that holds the result. Moves the element out of `work`.
ElementRef value_of(const ElementRef& item, WorkItem& work);

}  // namespace penstock
