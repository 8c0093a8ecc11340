// Recycled memory that batches live in.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <penstock/buffer.h>
#include <penstock/element.h>
#include <penstock/source.h>
#include <penstock/spec.h>

#include "pipeline/core/thread_annotations.h"
#include "pipeline/core/waker.h"
#include "pipeline/engine/memory.h"

namespace penstock {

class SlotPool;

/// The layout of one batch: every component contiguous, aligned, one after another. Behind the rows
/// of each there may be spare ones, for elements that take the place of failed ones.
struct SlotLayout {
  static constexpr std::int64_t kMostRows = INT32_MAX;  ///< rows are numbered by 32 bits

  /// Throws Error{out_of_range} if not even one element can be held.
  SlotLayout(const Spec& element, std::int64_t rows, std::int64_t spare = 0);

  Spec element;  ///< of one row
  const Names* names;
  std::int64_t rows;
  std::int64_t room;                 ///< rows and spare ones
  std::vector<std::size_t> offsets;  ///< of each component in the slot
  std::vector<std::size_t> strides;  ///< bytes of one row of each component
  /// Of the slot, with what byte strings' views take. SIZE_MAX, which no budget has room for, if it
  /// can't be counted or has more than kMostRows.
  std::size_t bytes = 0;
};

/// A fixed region that one batch lives in, reused for ever. A buffer: when the last tensor that
/// shares it is gone it returns to its pool. Rows are written by many threads, each its own.
class Slot final : public Buffer {
 public:
  Slot(const SlotLayout& layout, Allocator& allocator);
  ~Slot() override;

  const SlotLayout& layout() const noexcept { return layout_; }
  Row row(std::size_t index) const noexcept {
    return {bases_.data(), layout_.strides.data(), index};
  }

  /// Rows as one element to write to, every component [rows, ...]. REQUIRES: no byte strings.
  Element columns(std::size_t row, std::size_t rows) const;
  struct Texts {
    std::span<std::string_view> texts;
    std::span<BufferPtr> owners;
  };
  /// The byte strings of rows to write to. REQUIRES: one component, of byte strings.
  Texts texts(std::size_t row, std::size_t rows) noexcept {
    return {std::span(texts_[0]).subspan(row, rows), std::span(owners_[0]).subspan(row, rows)};
  }
  /// Puts elements of just the layout's components in the rows from `row` on, and returns how many:
  /// the first that has failed, is otherwise, or needs memory for its text ends it. Takes the
  /// owners of their texts.
  std::size_t store_fitting(std::span<WorkItem> work, std::size_t row) noexcept;
  /// Copies what is not in place yet. A status that is not ok says what does not fit the layout.
  Status store(WorkItem& item, std::size_t row, ReadContext& memory);
  /// Lets go of the byte strings of one row.
  void clear_row(std::size_t row) noexcept;
  /// Moves one row's values; within one slot or between slots of the same layout.
  void move_row(std::size_t to, Slot& from_slot, std::size_t from);
  /// The first `rows` rows as a batch that shares this slot.
  Element batch(std::size_t rows);
  /// The rows named, in that order, as a batch that shares this slot. Where they lie in order
  /// already, but for some gaps, few are moved: large components may begin behind the first row.
  Element batch(std::span<const std::uint32_t> order);
  Made made() const noexcept override { return made_; }

 private:
  friend class SlotPool;
  void dispose() noexcept override;
  void copy_row(std::size_t c, std::size_t to, std::size_t from);
  void close_gaps(std::size_t c, std::span<const std::uint32_t> order, std::size_t first);
  void permute(std::span<const std::uint32_t> order);

  Element view(std::size_t rows, std::size_t first);
  std::size_t begin_of(std::size_t c, std::size_t first) const noexcept;
  Status misfit(const Element& element) const;

  const SlotLayout& layout_;
  Allocator& allocator_;
  struct Column {
    DType dtype;
    Shape shape;
    std::byte* base;  // null for byte strings
    std::size_t stride;
    std::string_view* texts;
    BufferPtr* owners;
  };
  std::vector<Column> columns_;
  std::vector<std::byte*> bases_;  // null for byte strings
  std::vector<std::vector<std::string_view>> texts_;
  std::vector<std::vector<BufferPtr>> owners_;
  Made made_;
  std::shared_ptr<SlotPool> pool_;  // while in use
};

/// Slots of one layout, made as they are needed while the budget has room. Thread-safe.
class SlotPool : public std::enable_shared_from_this<SlotPool> {
 public:
  /// `freed` is notified whenever a slot comes back.
  SlotPool(SlotLayout layout, std::size_t limit, std::shared_ptr<Memory> memory,
           std::shared_ptr<Allocator> allocator, std::shared_ptr<Waker> freed);
  ~SlotPool();

  const SlotLayout& layout() const noexcept { return layout_; }
  enum class Make {
    if_must,  ///< two in all: one to fill while another is with the consumer
    within,   ///< as many as the limit says
    beyond,   ///< more, for a consumer that keeps batches
  };
  /// A free slot, else one that is made while the budget has room, else null.
  Ref<Slot> take(Make make) EXCLUDES(mutex_);
  /// Raises the limit by a quarter, up to `most`, if the last time was a while ago and memory has
  /// room for another slot. Returns the limit before, or 0 if it was left alone.
  std::size_t widen(std::size_t most) EXCLUDES(mutex_);
  /// Lets go of the slots that nobody uses, so that there is as much room as there can be.
  void drop_free() noexcept EXCLUDES(mutex_);
  /// Lowers the limit to `most`; slots beyond it go as they come back.
  void narrow(std::size_t most) EXCLUDES(mutex_);
  std::size_t limit() const EXCLUDES(mutex_);
  std::size_t made() const EXCLUDES(mutex_);

 private:
  friend class Slot;
  void give(Slot* slot) noexcept EXCLUDES(mutex_);
  void drop(Slot* slot) noexcept REQUIRES(mutex_);

  const SlotLayout layout_;
  const std::shared_ptr<Memory> memory_;
  const std::shared_ptr<Allocator> allocator_;  // null: the heap
  const std::shared_ptr<Waker> freed_;
  mutable Mutex mutex_;
  std::vector<Slot*> free_ GUARDED_BY(mutex_);
  std::size_t made_ GUARDED_BY(mutex_) = 0;
  std::size_t limit_ GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point widened_ GUARDED_BY(mutex_){};
};

}  // namespace penstock
