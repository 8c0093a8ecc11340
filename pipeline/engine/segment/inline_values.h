// Values of datasets that are nested in other datasets.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/engine/errors/error_account.h"
#include "pipeline/engine/make/executor.h"
#include "pipeline/engine/memory/memory_line.h"
#include "pipeline/engine/memory/step_back.h"
#include "pipeline/stage/run_services.h"

namespace penstock {

/// The parts of a run that making elements on the calling thread uses.
struct InlineServices {
  GroupContext::Services making;
  const StepBack& step_back;
  MemoryLine& line;
  const RunServices& stages;
};

/// Makes `items` on this thread and puts the results into `work`. Returns false if there is no room
/// now; `work` then has errors that say so.
inline bool try_here(const InlineServices& run, std::uint64_t key,
                     std::span<const ElementRef> items, std::span<WorkItem> work) {
  for (WorkItem& item : work) item = WorkItem();
  GroupContext context(run.making, key);
  read_items(items, work, {}, context);
  compute_items(items, work, {}, context);
  find_changed_views(items, context, [work](std::size_t item, Status status) {
    work[item].element.clear();
    work[item].status = std::move(status);
  });
  if (!context.blocked() || context.blocked_bytes() > run.making.memory.limit()) return true;
  for (WorkItem& item : work) item.element.clear();
  return false;
}

/// The same. If there is no memory, waits for it.
inline void make_here(const InlineServices& run, std::uint64_t key,
                      std::span<const ElementRef> items, std::span<WorkItem> work) {
  bool made = try_here(run, key, items, work);
  while (!made) {
    run.stages.check_stop();
    std::uint64_t seen = 0;
    {
      Memory::Attempt attempt(run.making.memory);
      seen = attempt.seen();
      made = try_here(run, key, items, work);
      if (made) attempt.succeeded();
    }
    if (!made && !run.line.wait(seen)) return;
  }
}

/// Values that are made where they are pulled instead of handed over, because nested datasets come
/// and go by the thousand.
class InlineValues final : public OrderIterator {
 public:
  /// `key` keys the epoch's random numbers. `ends_at_no` is that of the stage that pulls.
  InlineValues(const InlineServices& services, OrderIteratorPtr input, ErrorAccount account,
               std::uint64_t key, bool ends_at_no)
      : run_(services),
        input_(std::move(input)),
        account_(std::move(account)),
        key_(key),
        ends_at_no_(ends_at_no),
        items_(kInlineGroup),
        work_(kInlineGroup) {}

  ~InlineValues() override { settle(); }

  std::size_t pull(std::span<ElementRef> out) override {
    for (;;) {
      run_.stages.check_stop();  // perhaps a predicate keeps none at all
      const std::size_t most = run_.step_back.alone() || ends_at_no_ ? 1 : items_.size();
      const std::size_t count = input_->pull({items_.data(), std::min(out.size(), most)});
      if (count == 0) {
        settle();
        return 0;
      }
      const std::size_t kept = make(count, out);
      if (kept > 0) return kept;
    }
  }
  void save(StateWriter& state) const override {
    state.put(passed_.seen + good_);
    state.put(passed_.bad);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    passed_.seen = state.get();
    passed_.bad = state.get();
    account_.restore(passed_);
    input_->restore(state);
  }

 private:
  static constexpr std::size_t kInlineGroup = 16;

  void settle() {
    passed_.seen += good_;
    account_.pass(std::exchange(good_, 0));
  }

  std::size_t make(std::size_t count, std::span<ElementRef> out) {
    const std::span<const ElementRef> items(items_.data(), count);
    const std::span<WorkItem> work(work_.data(), count);
    make_here(run_, key_, items, work);
    note_views(work);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (!work[i].status.ok() && account_.skips()) {
        const std::uint64_t reached = std::exchange(good_, 0) + 1;
        Status over = account_.skip(reached, work[i].status.error());
        passed_ += {reached, 1};
        if (over.ok()) continue;
        work[i].status = std::move(over);
      } else {
        ++good_;
      }
      out[kept++] = value_of(items[i], work[i]);
      hold(out[kept - 1], run_.making.memory.held().here_or_elsewhere());
    }
    if (account_.skips()) settle();
    return kept;
  }

  const InlineServices run_;
  OrderIteratorPtr input_;
  ErrorAccount account_;
  const std::uint64_t key_;
  const bool ends_at_no_;
  std::uint64_t good_ = 0;  // elements since the last bad one
  Passed passed_;           // counts up to the last bad element
  std::vector<ElementRef> items_;
  std::vector<WorkItem> work_;
};

}  // namespace penstock
