// A group that a session makes.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <penstock/internal/thread_annotations.h>

#include "pipeline/engine/segment/group_sizer.h"
#include "pipeline/remote/session.h"
#include "pipeline/remote/shared_memory.h"

namespace penstock::remote {

/// An allocator of rows from a run's budget, for one slot.
class Session::BudgetAllocator final : public Allocator {
 public:
  /// Takes `shared` first, which may be null, and for which the budget was charged already.
  BudgetAllocator(ReadContext& context, std::shared_ptr<SharedMemory> shared)
      : context_(context), shared_(std::move(shared)) {}
  std::byte* allocate(std::size_t bytes) override {
    if (shared_) buffer_ = shared_->allocate(bytes);
    if (!buffer_) buffer_ = context_.allocate(bytes);
    return buffer_->data();
  }
  void deallocate(std::byte*, std::size_t) noexcept override { buffer_ = {}; }

 private:
  ReadContext& context_;
  const std::shared_ptr<SharedMemory> shared_;
  BufferPtr buffer_;
};

/// A way to wake a session, as long as it exists.
struct Session::Bell {
  explicit Bell(Session& whose) : session(&whose) {}
  Mutex mutex;
  Session* session GUARDED_BY(mutex);
};

/// The elements of one group that are being made for other runs. Thread-safe.
class Session::Awaited final : public KeptWaiter {
 public:
  Awaited(std::shared_ptr<Bell> bell, std::size_t items) : bell_(std::move(bell)), told_(items) {
    numbers_.reserve(items);
  }
  void told(std::size_t item, KeptPtr kept) noexcept override;
  struct Told {
    std::uint32_t item;
    KeptPtr kept;  // null: it failed
  };
  /// Returns what was told since the last call.
  std::vector<Told> take();
  Awaited(const Awaited&) = delete;
  Awaited& operator=(const Awaited&) = delete;

 private:
  const std::shared_ptr<Bell> bell_;
  Mutex mutex_;
  // Both have room for all items.
  std::vector<KeptPtr> told_ GUARDED_BY(mutex_);
  std::vector<std::uint32_t> numbers_ GUARDED_BY(mutex_);
};

/// A charge for bytes that are not allocated through a context.
class Session::Charge {
 public:
  Charge() = default;
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;
  ~Charge() {
    if (memory_ != nullptr) memory_->discharge(bytes_);
  }
  bool take(Memory& memory, std::uint64_t bytes) {
    if (!memory.charge(bytes)) return false;
    memory_ = &memory;
    bytes_ = bytes;
    return true;
  }

 private:
  Memory* memory_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// A group, from its request until its answer is sent.
struct Session::Work {
  Work(const GroupContext::Services& services, Activity& activity,
       std::shared_ptr<SharedMemory> shared)
      : context(services, 0),
        waited_for(activity.consumer_waits()),
        allocator(context, std::move(shared)) {}

  std::uint64_t id = 0;
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
  Charge charge_of_message;
  Charge charge_of_work;
  GroupContext context;  // of received values, and of rows
  // The requester waits for this group, which gives it as many threads as there is work for.
  Counted waited_for;
  BudgetAllocator allocator;
  GroupSizes sizes;
  std::optional<GroupSizer> sizer;
  PixelsOfRows pixels;  // of the components that the run finishes
  std::optional<SlotLayout> layout;
  std::size_t count = 0;  // elements that were requested
  // All of the elements. If some come from other runs: those that are made now.
  Group group;
  std::unique_ptr<Slot> slot;
  std::unique_ptr<GroupRunner> runner;
  Charge charge;
  Results results;
  Charge charge_of_packed;
  std::vector<std::byte> packed;

  // For elements that runs share:
  enum class Share : std::uint8_t {
    settled,  // it is in its place, or this run alone makes it
    mine,     // this run makes it, and others may wait for it
    others,   // another run makes it
  };
  std::shared_ptr<Awaited> awaited;  // null: nothing is shared
  Asked asked;
  std::vector<Share> shares;
  std::vector<std::uint32_t> made;  // the items that the group has
  bool whole = false;               // the group has all items, so its results are the answer
  Failures failures;
  std::vector<WorkItem> answers;  // unless they are rows
  std::vector<KeptPtr> kept;      // owners of the memory that answers view
  std::uint64_t had = 0;          // elements that other runs made
  std::uint64_t allocated = 0;    // for the `computed` elements
  std::uint64_t computed = 0;
  // Guarded by the session's mutex:
  bool making = false;
  bool broken = false;               // for lack of memory
  bool over = false;                 // it is being answered
  std::size_t waits_for = 0;         // elements of other runs
  std::vector<std::uint32_t> to_do;  // items to make next

  std::span<const ElementRef> items() const {
    return awaited ? std::span<const ElementRef>(asked.items) : group.all_items();
  }
  std::span<WorkItem> values() { return awaited && !whole ? std::span(answers) : group.all_work(); }
  const Failures& failed() const { return awaited && !whole ? failures : group.failures; }
};

}  // namespace penstock::remote
