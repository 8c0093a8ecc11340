// Makes values of items.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pipeline/core/codec_budget.h"
#include "pipeline/engine/memory.h"
#include "pipeline/engine/places.h"
#include "pipeline/engine/retry.h"
#include "pipeline/order/element_ref.h"

namespace penstock {

/// Gives ops and sources their memory. `starved` remembers that the budget had no room, so that the
/// work can be done again when it has. One per group; not synchronised.
class GroupContext final : public WorkContext, public CodecBudget {
 public:
  GroupContext(Memory& memory, std::uint64_t key, Retry& retry, const std::atomic<bool>& cancelled)
      : memory_(memory), retry_(retry) {
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
  /// What codecs have not given back is given back.
  void end_codecs() noexcept;
  /// Bytes of all requests so far, if one of a codec's found no room; else 0.
  std::uint64_t starved_codecs() const noexcept { return starved_codecs_; }
  /// Takes over bytes that were reserved for this group.
  void promise(std::uint64_t bytes) { promised_ += bytes; }
  bool starved() const noexcept { return starved_ > 0; }
  /// Bytes of the largest request that found no room.
  std::uint64_t starved_bytes() const noexcept { return starved_; }
  /// What found no room since `starved_bytes` said this is done without.
  void do_without(std::uint64_t bytes) noexcept { starved_ = bytes; }
  /// Bytes that were given out in all.
  std::uint64_t allocated() const noexcept { return allocated_; }
  /// Takes as much of what was promised to `group`, for a part of it that another thread reads…
  void promise_of(GroupContext& group, std::uint64_t bytes) noexcept;
  /// …and gives back what is left of it, with all that the part found out.
  void absorb(GroupContext& part);
  Retry& retry() noexcept { return retry_; }
  void set_op(std::uint32_t op) noexcept { op_ = op; }

  /// The parts of tuples, kept from when they were read until the tuple is made.
  struct Parts {
    const ElementRef* tuple = nullptr;
    std::vector<WorkItem> parts;
  };
  std::vector<Parts> read_parts;

 private:
  Memory& memory_;
  Retry& retry_;
  std::uint64_t promised_ = 0;
  std::uint64_t starved_ = 0;
  std::uint64_t allocated_ = 0;
  std::uint64_t codecs_ = 0;  // bytes that they have
  std::uint64_t starved_codecs_ = 0;
};

/// Carries out the programs of `items`, in runs of equal programs; the results, or why there are
/// none, are in `work`. `places`, if not empty, tell the last step where in batches results go.
/// Items are not changed, so that they can be executed again. Thread-safe.
///
/// In two parts, because reading may wait and computing may not: `read_items` fetches the records
/// of items whose source blocks, `compute_items` does the rest.
void read_items(std::span<const ElementRef> items, std::span<WorkItem> work, const Places& places,
                GroupContext& context);
void compute_items(std::span<const ElementRef> items, std::span<WorkItem> work,
                   const Places& places, GroupContext& context);

/// An item that can't be made among its neighbours: it failed, or its value does not fit.
struct Outlier {
  std::size_t item = 0;
  WorkItem work;
};

/// The same for items that are all alike, of a columnar program whose results have places: makes
/// the first of them together, in their places but for `outliers`, and returns how many. 0: they
/// are better made one by one.
std::size_t compute_columns(std::span<const ElementRef> items, const Places& places,
                            GroupContext& context, std::vector<Outlier>& outliers);

/// Gives errors of a step that are new their address, and counts.
void finish_step(std::span<const ElementRef> items, std::span<WorkItem> work,
                 const std::string& stage, StageCounters* counters, std::int64_t fixed_bytes,
                 std::chrono::steady_clock::time_point start);

/// True if all items are records of a source with the same program, which lives as long as the run.
bool all_alike(std::span<const ElementRef> items) noexcept;
/// True if there is more to do than to read records.
bool has_ops(std::span<const ElementRef> items) noexcept;
/// True if some item's source waits for a device, or some op does.
bool reads_block(std::span<const ElementRef> items) noexcept;
bool ops_block(std::span<const ElementRef> items) noexcept;
/// The most elements that an op of the first item, which stands for its neighbours, likes at once.
std::size_t preferred_group(std::span<const ElementRef> items) noexcept;
/// Bytes that reading these items will take, as far as sources know.
std::uint64_t read_bytes(std::span<const ElementRef> items);

/// An item that holds the result. Moves the element.
ElementRef value_of(const ElementRef& item, WorkItem& work);

}  // namespace penstock
