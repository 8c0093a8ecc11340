// The state machines that a schedule drives: batches and values, with elements of known fate.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <penstock/rng.h>
#include <penstock/state.h>

#include "pipeline/engine/segment/batch_assembler.h"
#include "pipeline/engine/segment/ordered_values.h"
#include "pipeline/stage/counters.h"
#include "pipeline/stage/element_ref.h"
#include "tests/engine/sequential_model.h"

namespace penstock::test {

/// Elements, and the options of their run.
struct Scheduled {
  std::vector<Made> elements;
  SequentialOptions options;
  bool ordered = true;  // for values
};

inline RunOptions run_options(const SequentialOptions& options) {
  return {.on_error = options.skip ? OnError::skip : OnError::fail,
          .max_errors = options.max_errors,
          .max_error_share = options.max_error_share};
}

/// Prepares a group as the puller does.
inline Group& with_room(Group& group) {
  group.items.resize(8);
  return group;
}

inline Status failure_of(std::uint64_t element) {
  return Error(ErrorCode::user, "bad", {{}, -1, static_cast<std::int64_t>(element), {}});
}

/// The common part of both machines, including saved positions.
class Machine {
 public:
  explicit Machine(const Scheduled& from)
      : elements_(from.elements), options_(run_options(from.options)), ledger_(options_) {}
  virtual ~Machine() = default;

  virtual std::size_t room(Rng& rng) = 0;
  virtual void admit(Group& group) = 0;
  /// Makes all or some of the remaining elements of the group. True if the group is done.
  virtual bool make(Group& group, Rng& rng) = 0;
  virtual std::size_t take(std::span<ElementRef> out) = 0;
  virtual bool drained() const = 0;
  virtual void end() = 0;
  virtual std::uint64_t consumed() const = 0;
  virtual std::uint64_t skipped() const = 0;
  virtual Group& take_group() = 0;
  virtual void save(StateWriter& state) const = 0;
  virtual void restore(StateReader& state, std::uint64_t consumed, std::uint64_t skipped) = 0;

 protected:
  ErrorAccount account() {
    return {ledger_, {&counters_, 1, true}, options_.on_error == OnError::skip};
  }
  Made fate(std::uint64_t element) const { return elements_[element]; }
  Waker waker_;

 private:
  const std::vector<Made>& elements_;
  const RunOptions options_;
  StageCounters counters_;
  SkipLedger ledger_;
};

class Values final : public Machine {
 public:
  explicit Values(const Scheduled& from)
      : Machine(from), values_(account(), from.ordered, waker_), limit_(3) {}

  std::size_t room(Rng& rng) override {
    return values_.room({.wanted = 8, .group_limit = limit_, .crowded = rng.coin(0.1)});
  }
  void admit(Group& group) override {
    group.work.resize(std::max(group.work.size(), group.count));
    values_.admit(group);
  }
  bool make(Group& group, Rng& /*rng*/) override {
    for (std::size_t i = 0; i < group.count; ++i) make_one(group, i);
    return done(group);
  }
  std::size_t take(std::span<ElementRef> out) override {
    const std::size_t count = values_.take(out);
    Group* spent = values_.spent();
    while (Group* const group = spent) {
      spent = std::exchange(group->next, nullptr);
      group->let_go();
      values_.reuse(*group);
    }
    return count;
  }
  bool drained() const override { return values_.drained(); }
  void end() override { values_.end(); }
  std::uint64_t consumed() const override { return values_.consumed(); }
  std::uint64_t skipped() const override { return values_.skipped(); }
  Group& take_group() override { return with_room(values_.groups().take()); }
  void save(StateWriter& state) const override { values_.save(state); }
  void restore(StateReader& state, std::uint64_t consumed, std::uint64_t skipped) override {
    values_.restore(state, consumed, skipped);
  }

 private:
  bool done(Group& group) {
    group.done = true;
    values_.complete(group);
    return true;
  }
  void make_one(Group& group, std::size_t i) {
    const std::uint64_t element = group.first + i;
    WorkItem& work = group.work[i];
    work = WorkItem();
    if (fate(element) == Made::failed) {
      work.status = failure_of(element);
    } else {
      work.element = Element({{"x", Tensor::scalar(static_cast<std::int64_t>(element))}});
    }
  }

  OrderedValues values_;
  const std::size_t limit_;
};

class Batches final : public Machine {
 public:
  Batches(const Scheduled& from, std::shared_ptr<SlotPool> slots)
      : Machine(from),
        slots_(std::move(slots)),
        batches_(account(), from.options.drop_remainder, 0, waker_) {}

  std::size_t room(Rng& rng) override {
    batches_.dropped();  // releases them
    if (batches_.held_up()) return 0;
    std::size_t room = batches_.room();
    while (room == 0 || rng.coin(0.3)) {
      Ref<Slot> slot = slots_->take(SlotPool::Make::within);
      if (!slot) break;
      batches_.open(std::move(slot));
      room += static_cast<std::size_t>(slots_->layout().rows);
    }
    return std::min<std::size_t>(room, 8);
  }
  void admit(Group& group) override { batches_.admit(group); }
  bool make(Group& group, Rng&) override {
    Places(group.places).for_each(group.count, [&](const Place& place) {
      for (std::uint32_t i = 0; i < place.count; ++i) {
        const std::uint64_t element = group.first + place.first + i;
        std::memcpy(place.slot->row(place.row + i).data(0), &element, sizeof(element));
        if (fate(element) == Made::failed) {
          group.failures.emplace_back(place.first + i, failure_of(element));
        }
      }
    });
    group.let_go();
    batches_.complete(group);
    groups_.give(group);
    return true;
  }
  std::size_t take(std::span<ElementRef> out) override { return batches_.take(out); }
  bool drained() const override { return batches_.drained(); }
  void end() override { batches_.end(); }
  std::uint64_t consumed() const override { return batches_.consumed(); }
  std::uint64_t skipped() const override { return batches_.skipped(); }
  Group& take_group() override { return with_room(groups_.take()); }
  void save(StateWriter& state) const override { state.put(batches_.delivered()); }
  void restore(StateReader& state, std::uint64_t consumed, std::uint64_t skipped) override {
    batches_.restore(consumed, skipped, state.get());
  }

 private:
  const std::shared_ptr<SlotPool> slots_;
  GroupPool groups_;
  BatchAssembler batches_;
};

inline std::unique_ptr<Machine> machine_for(const Scheduled& from) {
  if (from.options.rows == 0) return std::make_unique<Values>(from);
  const auto rows = static_cast<std::int64_t>(from.options.rows);
  const Spec spec({{"x", DType::i64, {}}});
  const auto memory = std::make_shared<Memory>(std::uint64_t{1} << 20, Allocator::heap());
  const std::int64_t spare = from.options.skip && from.elements.size() % 2 == 0 ? 1 : 0;
  return std::make_unique<Batches>(
      from, std::make_shared<SlotPool>(SlotLayout(spec, rows, spare), 1 + from.elements.size() % 4,
                                       memory, nullptr, std::make_shared<Waker>()));
}

}  // namespace penstock::test
