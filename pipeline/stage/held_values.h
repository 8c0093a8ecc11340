// Memory of the values that a stage holds.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include <penstock/internal/thread_annotations.h>

#include "pipeline/stage/run_services.h"

namespace penstock {

/// Charges for payloads, which may outlive the stage that held them. Each payload in use holds a
/// reference. Thread-safe.
class PayloadCharges {
 public:
  /// How many payloads one charge pays for, and how many are taken into use together.
  static constexpr std::uint64_t kTogether = 16;

  /// Takes what is paid for kTogether payloads into use. Returns false if less is left.
  bool take() noexcept;
  /// Adds a charge for kTogether payloads.
  void add(BufferPtr charge) EXCLUDES(mutex_);
  /// Takes back what one payload used, and its reference.
  void give() noexcept EXCLUDES(mutex_);

  void add_ref() noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  /// Drops a charge, unless little is unused by now.
  void drop_one() noexcept EXCLUDES(mutex_);

  std::atomic<std::uint32_t> refs_{0};
  std::atomic<std::uint64_t> unused_{0};  // payloads that are paid for, and not in use
  Mutex mutex_;
  std::vector<BufferPtr> charges_ GUARDED_BY(mutex_);
};

/// Charges the budget for the values that a stage holds, besides their tensors: a payload takes
/// more than a number does. Up to kFree payloads are free, so that small buffers need no larger
/// budget; up to kFreeNested in a stage of an open dataset, as many of these may be open. A charge
/// stays with its payload until that is recycled, also behind the stage. Used by one thread.
class HeldValues {
 public:
  static constexpr std::uint64_t kFree = 1024;
  static constexpr std::uint64_t kFreeNested = 64;
  /// Charged for each payload: itself, and what the stage has to find it.
  static constexpr std::uint64_t kBytes = sizeof(Payload) + 144;

  HeldValues(const Node& node, const OpenContext& context)
      : node_(node), run_(context.run), free_(context.nested ? kFreeNested : kFree) {}
  HeldValues(const HeldValues&) = delete;
  HeldValues& operator=(const HeldValues&) = delete;
  ~HeldValues() {
    for (; ready_ > 0; --ready_) charges_->give();
  }

  /// Returns the number of payloads that an item keeps in memory.
  static std::uint64_t payloads_of(const ElementRef& item) noexcept {
    if (!item.payload) return 0;
    return item.program ? 1 + payloads_of_children(*item.payload) : 1;
  }

  /// Charges for an item that the stage keeps. `held` is the number of payloads that it holds then.
  /// Waits for room. Returns false, now and for all later items, if there is none, or if that is
  /// more than a stage may keep.
  bool charge(const ElementRef& item, std::uint64_t held);
  /// True if `charge` has returned false.
  bool full() const noexcept { return full_.has_value(); }
  /// Ends the run for lack of memory, and throws the error. REQUIRES: full().
  [[noreturn]] void refuse();

 private:
  static std::uint64_t payloads_of_children(const Payload& payload) noexcept;
  void charge(Payload& payload);
  Error no_room(std::uint64_t held, bool too_much) const;

  const Node& node_;
  RunServices& run_;
  const std::uint64_t free_;     // payloads
  Ref<PayloadCharges> charges_;  // null: none yet
  std::uint64_t ready_ = 0;      // payloads that are taken into use there, and not here yet
  std::optional<Error> full_;
};

}  // namespace penstock
