// An input on simulated time that makes batches ahead, as the engine does.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include <penstock/element.h>
#include <penstock/internal/thread_annotations.h>

#include "staging/clock.h"
#include "staging/source.h"

namespace penstock::test {

struct Flow {
  std::int64_t batches = 0;
  std::int64_t rows = 1;
  std::int64_t row_bytes = 8;
  std::int64_t read_ns = 0;                ///< of a batch, by one reader
  std::vector<std::int64_t> stages_ns{0};  ///< of a batch in each stage, by one thread
  int readers = 0;                         ///< 0: the threads read
  int threads = 1;
  int slots = 4;                ///< batches made or in use at once, limited by the budget
  std::int64_t slow_every = 0;  ///< of this many batches, one takes…
  std::int64_t slow_times = 1;  ///< …this many times as long
  std::int64_t cold = 0;        ///< this many batches at the start take as long
  std::int64_t memory_ns = 0;   ///< the time for which each batch waits for memory
  bool decodes = false;         ///< the first stage decodes
};

/// A source of simulated batches. A batch has so many elements that all threads work on it until it
/// is done, one batch after the other. Reads run at the same time. A batch is begun when there is a
/// slot, and a slot comes back when the batch's last tensor is destroyed.
class FluidSource final : public BatchSource {
 public:
  FluidSource(const Flow& flow, TimeSource& clock)
      : flow_(flow), slots_(std::make_shared<Slots>(clock)) {
    for (int i = 0; i < flow.slots + 1; ++i) {
      slots_->all.push_back(
          std::make_unique<Memory>(*slots_, static_cast<std::size_t>(flow.rows * flow.row_bytes)));
      slots_->free.push_back(slots_->all.back().get());
    }
    slots_->returned.reserve(static_cast<std::size_t>(flow.batches));
  }

  Next next() override {
    if (number_ == flow_.batches) return Next(End{});
    TimeSource& clock = slots_->clock;
    Ref<Memory> memory;
    std::int64_t begin = 0;
    {
      MutexLock lock(slots_->mutex);
      const std::int64_t needs = number_ - flow_.slots;  // the slot of that batch
      while (needs >= static_cast<std::int64_t>(slots_->returned.size()))
        wait_on(clock, slots_->mutex, slots_->changed);
      if (needs >= 0) begin = slots_->returned[static_cast<std::size_t>(needs)];
      memory = Ref<Memory>(slots_->free.back());
      slots_->free.pop_back();
    }
    made_ = std::max(made_, begin) + pace(number_);
    ++number_;
    if (made_ > clock.now()) clock.sleep_until(made_);
    Element batch{{"x", Tensor(DType::u8, Shape({flow_.rows, flow_.row_bytes}), memory->data(),
                               BufferPtr(memory.get()))}};
    batch.valid_rows = flow_.rows;
    return Next(std::move(batch));
  }
  Buffer::Made made() const noexcept override { return {made_, flow_.slots}; }
  bool next_epoch() override { return false; }
  Stats stats() const override {
    Stats stats;
    stats.batches = static_cast<std::uint64_t>(number_);
    stats.threads = flow_.threads;
    stats.readers = flow_.readers;
    double load = 0;
    for (std::int64_t i = 0; i < number_; ++i) load += static_cast<double>(times(i));
    const auto busy = [&](std::int64_t ns) { return 1e-9 * static_cast<double>(ns) * load; };
    const double reads = busy(flow_.read_ns);
    stats.stages.push_back({"read", 0, 0, reads, 0, "", flow_.readers > 0 ? reads : 0});
    for (std::size_t i = 0; i < flow_.stages_ns.size(); ++i)
      stats.stages.push_back({name_of(i) + (i == 0 && flow_.decodes ? " decode" : ""), 0, 0,
                              busy(flow_.stages_ns[i]), 0, ""});
    if (flow_.memory_ns > 0) {
      stats.stages.back().wait_s = 1e-9 * static_cast<double>(flow_.memory_ns * number_);
      stats.stages.back().waits_on = "memory";
    }
    return stats;
  }
  static std::string name_of(std::size_t stage) { return "map[" + std::to_string(stage + 1) + "]"; }
  std::string save() const override { return std::to_string(number_); }
  void cancel() noexcept override {}

 private:
  struct Memory;
  struct Slots {
    explicit Slots(TimeSource& of) : clock(of) {}
    TimeSource& clock;
    Mutex mutex;
    Signal changed;
    std::vector<std::unique_ptr<Memory>> all;
    std::vector<Memory*> free GUARDED_BY(mutex);
    std::vector<std::int64_t> returned GUARDED_BY(mutex);  // times, in order
  };
  struct Memory final : Buffer {
    Memory(Slots& of, std::size_t bytes) : slots(of), bytes_of(bytes) {
      data_ = bytes_of.data();
      size_ = bytes;
    }
    void dispose() noexcept override {
      MutexLock lock(slots.mutex);
      slots.free.push_back(this);
      slots.returned.push_back(slots.clock.now());
      slots.clock.notify(slots.changed);
    }
    Slots& slots;
    std::vector<std::byte> bytes_of;
  };

  std::int64_t times(std::int64_t number) const {
    const bool slow = flow_.slow_every > 0 && (number + 1) % flow_.slow_every == 0;
    return slow || number < flow_.cold ? flow_.slow_times : 1;
  }
  std::int64_t pace(std::int64_t number) const {
    std::int64_t work = flow_.readers > 0 ? 0 : flow_.read_ns;
    for (const std::int64_t stage : flow_.stages_ns) work += stage;
    const std::int64_t reads = flow_.readers > 0 ? flow_.read_ns / flow_.readers : 0;
    return std::max(reads, work / flow_.threads) * times(number) + flow_.memory_ns;
  }

  const Flow flow_;
  std::shared_ptr<Slots> slots_;
  std::int64_t number_ = 0;
  std::int64_t made_ = 0;
};

}  // namespace penstock::test
