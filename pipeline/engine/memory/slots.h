// Recycled memory for batches.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/buffer.h>
#include <penstock/element.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/source.h>
#include <penstock/spec.h>

#include "pipeline/core/waker.h"
#include "pipeline/engine/memory/memory.h"

namespace penstock {

class SlotPool;

/// The layout of one batch: the components one after another, each contiguous and aligned. After
/// the rows of each component there may be spare rows, for elements that replace failed ones.
struct SlotLayout {
  static constexpr std::int64_t kMostRows = INT32_MAX;  ///< rows have 32-bit numbers

  /// Throws Error{out_of_range} if there is no room for even one element.
  SlotLayout(const Spec& element, std::int64_t rows, std::int64_t spare = 0);

  Spec element;  ///< spec of one row
  const Names* names;
  std::int64_t rows;
  std::int64_t room;                 ///< rows, including spare ones
  std::vector<std::size_t> offsets;  ///< of each component in the slot
  std::vector<std::size_t> strides;  ///< bytes of one row of each component
  /// Bytes of the slot, including the views of byte strings. SIZE_MAX, for which no budget has
  /// room, if the number is too large or if there are more than kMostRows rows.
  std::size_t bytes = 0;
};

/// The memory of one batch, reused again and again. It is a buffer: when the last tensor that
/// shares it is gone, it returns to its pool. Many threads may write at the same time, each to rows
/// of its own.
class Slot final : public Buffer {
 public:
  /// `held` counts the slots that stages hold; null: the stages' other memory does.
  Slot(const SlotLayout& layout, Allocator& allocator, HeldBytes* held = nullptr);
  ~Slot() override;

  const SlotLayout& layout() const noexcept { return layout_; }
  Row row(std::size_t index) const noexcept {
    return {bases_.data(), layout_.strides.data(), index};
  }

  /// Returns rows as one element to write to, with components of shape [rows, ...]. REQUIRES: no
  /// byte strings.
  Element columns(std::size_t row, std::size_t rows) const;
  struct Texts {
    std::span<std::string_view> texts;
    std::span<BufferPtr> owners;
  };
  /// Returns the byte strings of rows, to write to. REQUIRES: one component, of byte strings.
  Texts texts(std::size_t row, std::size_t rows) noexcept {
    return {std::span(texts_[0]).subspan(row, rows), std::span(owners_[0]).subspan(row, rows)};
  }
  /// Returns the byte string of one row. REQUIRES: the component consists of byte strings.
  std::string_view text(std::size_t component, std::size_t row) const noexcept {
    return texts_[component][row];
  }
  /// Puts elements with exactly the layout's components into the rows from `row` on, and returns
  /// how many. Stops at the first element that failed, differs from the layout, or needs memory for
  /// its text. Takes over the owners of their texts.
  std::size_t store_fitting(std::span<WorkItem> work, std::size_t row) noexcept;
  /// Copies the values that are not in place yet. If the element does not fit the layout, the
  /// status says why.
  Status store(WorkItem& item, std::size_t row, ReadContext& memory);
  /// Drops the byte strings of one row.
  void clear_row(std::size_t row) noexcept;
  /// Moves one row's values, within one slot or between slots of the same layout.
  void move_row(std::size_t to, Slot& from_slot, std::size_t from);
  /// Returns the first `rows` rows as a batch that shares this slot.
  Element batch(std::size_t rows);
  /// Returns the given rows, in that order, as a batch that shares this slot. If they are in order
  /// already, except for gaps, only few rows move, and large components may begin after the first
  /// row.
  Element batch(std::span<const std::uint32_t> order);
  Made made() const noexcept override { return made_; }
  HeldMark* held_mark() noexcept override { return &mark_; }
  void for_each_part(const std::function<void(Buffer& part)>& use) noexcept override;
  /// Returns the bytes that the byte strings of the slot count.
  std::uint64_t text_bytes() const noexcept;
  /// Links a slot to this one, which releases it when it is released itself.
  void link(Ref<Slot> next) noexcept { next_ = std::move(next); }

 private:
  friend class SlotPool;
  void dispose() noexcept override;
  void move_value(std::size_t c, std::size_t to, Slot& from_slot, std::size_t from);
  void close_gaps(std::size_t c, std::span<const std::uint32_t> order, std::size_t first);
  void permute(std::span<const std::uint32_t> order);

  Element view(std::size_t rows, std::size_t first);
  static std::int64_t now_ns() noexcept {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  }
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
  HeldMark mark_;
  std::shared_ptr<SlotPool> pool_;  // set while in use
  Ref<Slot> next_;
};

/// A pool of slots with one layout. It makes slots as they are needed while the budget has room.
/// Thread-safe.
class SlotPool : public std::enable_shared_from_this<SlotPool> {
 public:
  /// `freed` is notified whenever a slot returns.
  SlotPool(SlotLayout layout, std::size_t limit, std::shared_ptr<Memory> memory,
           std::shared_ptr<Allocator> allocator, std::shared_ptr<Waker> freed);
  ~SlotPool();

  const SlotLayout& layout() const noexcept { return layout_; }
  enum class Make {
    if_must,  ///< two in all: one to fill while the consumer has the other
    within,   ///< as many as the limit allows
    beyond,   ///< more, for a consumer that keeps batches
  };
  /// Returns a free slot, or a new one if the budget has room, or else null.
  Ref<Slot> take(Make make) EXCLUDES(mutex_) {
    Claim claimed = claim(make);
    return claimed.to_make ? this->make() : std::move(claimed.slot);
  }
  /// `take` in two steps. The first returns a free slot, or charges the budget for a new one, or
  /// does neither. The second makes the new slot, which takes long. If it throws, the charge is
  /// taken back.
  struct Claim {
    Ref<Slot> slot{};
    bool to_make = false;
  };
  Claim claim(Make make) EXCLUDES(mutex_);
  Ref<Slot> make() EXCLUDES(mutex_);
  /// Doubles the limit, up to `most`, if the last time was a while ago and memory has room for
  /// another slot. Returns the limit before, or 0 if it did not change.
  std::size_t widen(std::size_t most) EXCLUDES(mutex_);
  /// Raises the limit by one, up to `most`, if all slots are made and memory has room for another.
  bool add_one(std::size_t most) EXCLUDES(mutex_);
  /// Frees slots that are not in use, as long as more than `left` exist. Returns false if it frees
  /// none.
  bool drop_free(std::size_t left) noexcept EXCLUDES(mutex_);
  /// Lowers the limit to `most`. Excess slots are freed when they return.
  void narrow(std::size_t most) EXCLUDES(mutex_);
  std::size_t limit() const EXCLUDES(mutex_);
  std::size_t made() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return made_;
  }

 private:
  friend class Slot;
  Ref<Slot> in_use(Slot* slot) noexcept EXCLUDES(mutex_);
  void give(Slot* slot) noexcept EXCLUDES(mutex_);
  /// `first`: it was the only slot that was left.
  void destroy(Slot* slot, bool first) noexcept EXCLUDES(mutex_);

  const SlotLayout layout_;
  const std::shared_ptr<Memory> memory_;
  HeldBytes& held_;  // the slots that stages hold; one of them does not count
  const std::shared_ptr<Allocator> allocator_;  // null: the heap
  const std::shared_ptr<Waker> freed_;
  mutable Mutex mutex_;
  std::vector<Slot*> free_ GUARDED_BY(mutex_);
  std::size_t made_ GUARDED_BY(mutex_) = 0;
  std::size_t limit_ GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point widened_ GUARDED_BY(mutex_){};
};

}  // namespace penstock
