// The memory and the services that the ops and sources of one group get.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <penstock/work.h>

#include "pipeline/core/codec_budget.h"
#include "pipeline/core/device_scans.h"
#include "pipeline/core/run_control.h"
#include "pipeline/engine/errors/retry.h"
#include "pipeline/engine/memory/memory.h"
#include "pipeline/sources/mapping.h"
#include "pipeline/stage/element_ref.h"

namespace penstock {

/// The context of one group, from which ops and sources get their memory. If the budget had no
/// room, `blocked` tells that, so that the work can be redone when there is room. Not synchronised.
class GroupContext final : public WorkContext, public CodecBudget, public DeviceScans {
 public:
  /// The parts of the run that making elements uses.
  struct Services {
    Memory& memory;
    Retry& retry;
    const std::atomic<bool>& cancelled;
    bool trust_data;  ///< RunOptions::trust_data
    const RunControl* control = nullptr;
  };
  /// `key` keys random numbers.
  GroupContext(const Services& services, std::uint64_t key)
      : memory_(services.memory),
        retry_(services.retry),
        trust_data_(services.trust_data),
        control_(services.control) {
    key_ = key;
    cancelled_ = &services.cancelled;
  }
  ~GroupContext() override {
    memory_.unreserve(promised_);
    end_codecs();
  }

  BufferPtr allocate(std::size_t bytes) override;
  void note_records(const BufferPtr& buffer, std::span<const std::size_t> ends) override;
  void take(std::uint64_t bytes) override;
  void give(std::uint64_t bytes) noexcept override;
  bool trust_data() const noexcept override { return trust_data_; }
  std::uint64_t scan_bytes() const noexcept override {
    return control_ == nullptr ? 0 : control_->scan_bytes.load(std::memory_order_acquire);
  }
  /// Gives back to the budget the bytes that codecs took and have not given back.
  void end_codecs() noexcept;
  /// Gives back what was reserved for this group and not needed.
  void end_promise() noexcept { memory_.unreserve(std::exchange(promised_, 0)); }
  /// Takes over bytes that were reserved for this group.
  void promise(std::uint64_t bytes) { promised_ += bytes; }
  bool blocked() const noexcept { return blocked_ > 0; }
  /// Returns the bytes of the largest request that found no room.
  std::uint64_t blocked_bytes() const noexcept { return blocked_; }
  /// Resets `blocked_bytes` to an earlier value, as the work has been done without the memory that
  /// found no room since then.
  void do_without(std::uint64_t bytes) noexcept { blocked_ = bytes; }
  /// Returns the total number of bytes allocated.
  std::uint64_t allocated() const noexcept { return allocated_; }
  /// Takes up to `bytes` of the promise to `group`, for a part of the group that another thread
  /// reads.
  void promise_of(GroupContext& group, std::uint64_t bytes) noexcept;
  /// Takes back the rest of a part's promise, and the part's findings.
  void absorb(GroupContext& part);
  Retry& retry() noexcept { return retry_; }
  void set_op(std::uint32_t op) noexcept { op_ = op; }
  /// Remembers which mapped files an element views.
  void note_views(const Element& element);
  /// Returns the mapped files that elements of this group have viewed so far.
  std::span<const BufferPtr> views() const noexcept { return views_; }

  /// The parts of a tuple, kept from the time they are read until the tuple is made.
  struct Parts {
    const ElementRef* tuple = nullptr;
    std::vector<WorkItem> parts;
  };
  std::vector<Parts> read_parts;

 private:
  /// Returns the error of an element that takes `bytes` more.
  Error no_room(const std::string& needs, std::uint64_t bytes) const;

  Memory& memory_;
  Retry& retry_;
  std::uint64_t promised_ = 0;
  std::uint64_t blocked_ = 0;
  std::uint64_t allocated_ = 0;
  std::uint64_t codecs_ = 0;  // bytes that codecs hold
  const bool trust_data_;
  const RunControl* const control_;
  std::vector<BufferPtr> views_;
};

}  // namespace penstock
