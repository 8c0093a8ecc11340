// Computes the values of items.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "pipeline/core/codec_budget.h"
#include "pipeline/engine/memory.h"
#include "pipeline/engine/places.h"
#include "pipeline/engine/retry.h"
#include "pipeline/order/element_ref.h"
#include "pipeline/sources/mapping.h"

namespace penstock {

/// The context of one group, from which ops and sources get their memory. If the budget had no
/// room, `starved` tells that, so that the work can be redone when there is room. Not synchronised.
class GroupContext final : public WorkContext, public CodecBudget {
 public:
  GroupContext(Memory& memory, std::uint64_t key, Retry& retry, const std::atomic<bool>& cancelled,
               bool trust_data)
      : memory_(memory), retry_(retry), trust_data_(trust_data) {
    key_ = key;
    cancelled_ = &cancelled;
  }
  ~GroupContext() override {
    memory_.unreserve(promised_);
    end_codecs();
  }

  BufferPtr allocate(std::size_t bytes) override;
  void take(std::uint64_t bytes) override;
  void give(std::uint64_t bytes) noexcept override;
  bool trust_data() const noexcept override { return trust_data_; }
  /// Gives back to the budget the bytes that codecs took and have not given back.
  void end_codecs() noexcept;
  /// Returns the bytes of all requests so far if a codec's request found no room; otherwise 0.
  std::uint64_t starved_codecs() const noexcept { return starved_codecs_; }
  /// Takes over bytes that were reserved for this group.
  void promise(std::uint64_t bytes) { promised_ += bytes; }
  bool starved() const noexcept { return starved_ > 0; }
  /// Returns the bytes of the largest request that found no room.
  std::uint64_t starved_bytes() const noexcept { return starved_; }
  /// Resets `starved_bytes` to an earlier value, as the work has been done without the memory that
  /// found no room since then.
  void do_without(std::uint64_t bytes) noexcept { starved_ = bytes; }
  /// Returns the total number of bytes allocated.
  std::uint64_t allocated() const noexcept { return allocated_; }
  /// Takes up to `bytes` of the promise to `group`, for a part of the group that another thread
  /// reads.
  void promise_of(GroupContext& group, std::uint64_t bytes) noexcept;
  /// Takes back the rest of a part's promise, and the part's findings.
  void absorb(GroupContext& part);
  Retry& retry() noexcept { return retry_; }
  void set_op(std::uint32_t op) noexcept { op_ = op; }
  /// Remembers which mapped files these elements view.
  void note_views(std::span<const WorkItem> work);
  /// Returns the mapped files that elements of this group have viewed so far.
  std::span<const Ref<Mapping>> views() const noexcept { return views_; }

  /// The parts of a tuple, kept from the time they are read until the tuple is made.
  struct Parts {
    const ElementRef* tuple = nullptr;
    std::vector<WorkItem> parts;
  };
  std::vector<Parts> read_parts;

 private:
  /// Returns the error of an element that takes `all` bytes.
  Error no_room(const std::string& needs, std::uint64_t all) const;

  Memory& memory_;
  Retry& retry_;
  std::uint64_t promised_ = 0;
  std::uint64_t starved_ = 0;
  std::uint64_t allocated_ = 0;
  std::uint64_t codecs_ = 0;  // bytes that codecs hold
  std::uint64_t starved_codecs_ = 0;
  const bool trust_data_;
  std::vector<Ref<Mapping>> views_;
};

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

/// Adds the place to new errors of a step, and updates its counters.
void finish_step(std::span<const ElementRef> items, std::span<WorkItem> work,
                 const std::string& stage, StageCounters* counters, std::int64_t fixed_bytes,
                 std::chrono::steady_clock::time_point start);

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
