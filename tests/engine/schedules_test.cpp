// The batch assembler and the ordered values alone, without threads: whatever the order in which
// groups are admitted, made, made again and taken, what comes is what the sequential model says.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include <penstock/rng.h>

#include "pipeline/engine/batch_assembler.h"
#include "pipeline/engine/ordered_values.h"
#include "pipeline/order/support.h"
#include "tests/engine/sequential_model.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace {

using test::Made;
using test::sequential;
using test::SequentialOptions;
using test::SequentialOutput;
using Kind = SequentialOutput::Kind;

/// PENSTOCK_SCHEDULES says otherwise; tools/reliability.sh runs a million.
std::uint64_t schedules() {
  const char* const text = std::getenv("PENSTOCK_SCHEDULES");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 30'000;
}

struct Case {
  std::vector<Made> elements;
  SequentialOptions options;
  bool ordered = true;  // of values
};

Case random_case(Rng& rng, bool batches) {
  Case made;
  const std::uint64_t size = rng.below(16) == 0 ? 90 + rng.below(80) : rng.below(24);
  const double bad = rng.uniform() * rng.uniform();
  for (std::uint64_t i = 0; i < size; ++i) {
    made.elements.push_back(rng.coin(bad) ? Made::failed : Made::good);
  }
  made.options.rows = batches ? 1 + rng.below(8) : 0;
  made.options.drop_remainder = rng.coin(0.3);
  made.options.skip = rng.coin(0.6);
  made.ordered = batches || rng.coin(0.6);
  if (!made.options.skip || !made.ordered) return made;
  if (rng.coin(0.2)) made.options.max_errors = rng.below(6);
  if (rng.coin(0.2)) made.options.max_error_share = rng.uniform(0, 0.3);
  return made;
}

RunOptions run_options(const SequentialOptions& options) {
  return {.on_error = options.skip ? OnError::skip : OnError::fail,
          .max_errors = options.max_errors,
          .max_error_share = options.max_error_share};
}

Status failure_of(std::uint64_t element) {
  return Error(ErrorCode::user, "bad", {{}, -1, static_cast<std::int64_t>(element), {}});
}

SequentialOutput output_of(const ElementRef& item) {
  SequentialOutput output;
  if (is_error(item)) {
    const Error& error = item.payload->status.error();
    const bool over = error.cause().find("exceed the error budget") != std::string::npos;
    output.kind = over ? Kind::over : Kind::error;
    output.elements = {static_cast<std::uint64_t>(error.where().index)};
    return output;
  }
  output.kind = Kind::elements;
  for (const std::int64_t x : item.payload->element["x"].to_vector<std::int64_t>()) {
    output.elements.push_back(static_cast<std::uint64_t>(x));
  }
  return output;
}

/// What both have in common, and a position that was saved.
class Machine {
 public:
  explicit Machine(const Case& from)
      : elements_(from.elements), options_(run_options(from.options)), ledger_(options_) {}
  virtual ~Machine() = default;

  virtual std::size_t room(Rng& rng) = 0;
  virtual void admit(Group& group) = 0;
  /// Makes all that is left of the group, or some; true if it is done.
  virtual bool make(Group& group, Rng& rng) = 0;
  /// Gives up what was made ahead; the group that it was, in flight again.
  virtual Group* give_up() { return nullptr; }
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
  explicit Values(const Case& from)
      : Machine(from), values_(account(), from.ordered, waker_), limit_(3) {}

  std::size_t room(Rng& rng) override {
    return values_.room({.wanted = 4, .most = 8, .group_limit = limit_, .crowded = rng.coin(0.1)});
  }
  void admit(Group& group) override {
    group.work.resize(std::max(group.work.size(), group.count));
    values_.admit(group);
  }
  bool make(Group& group, Rng& rng) override {
    // One that found no memory is made one by one; others at once.
    if (!group.starved && group.redone == 0 && rng.coin(0.2)) group.starved = true;
    if (!group.starved) {
      for (std::size_t i = 0; i < group.count; ++i) make_one(group, i);
      return done(group);
    }
    group.redoing = rng.coin(0.5);
    for (std::uint64_t left = 1 + rng.below(3); left > 0 && group.redone < group.count; --left) {
      make_one(group, group.redone++);
      values_.redone(group);
    }
    return group.redone == group.count && done(group);
  }
  Group* give_up() override {
    const Results::Undelivered last = values_.last_undelivered(false);
    if (last.group == nullptr) return nullptr;
    Group& group = *last.group;
    group.drop_results(last.kept);
    group.redone = last.kept;
    group.done = false;
    return std::exchange(group.starved, true) ? nullptr : &group;
  }
  std::size_t take(std::span<ElementRef> out) override { return values_.take(out); }
  bool drained() const override { return values_.drained(); }
  void end() override { values_.end(); }
  std::uint64_t consumed() const override { return values_.consumed(); }
  std::uint64_t skipped() const override { return values_.skipped(); }
  Group& take_group() override { return values_.groups().take(8); }
  void save(StateWriter& state) const override { values_.save(state); }
  void restore(StateReader& state, std::uint64_t consumed, std::uint64_t skipped) override {
    values_.restore(state, consumed, skipped);
  }

 private:
  bool done(Group& group) {
    group.done = true;
    group.starved = group.redoing = false;
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
  Batches(const Case& from, std::shared_ptr<SlotPool> slots)
      : Machine(from),
        slots_(std::move(slots)),
        batches_(account(), from.options.drop_remainder, 0, waker_) {}

  std::size_t room(Rng& rng) override {
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
    batches_.complete(group);
    groups_.give(group);
    return true;
  }
  std::size_t take(std::span<ElementRef> out) override { return batches_.take(out); }
  bool drained() const override { return batches_.drained(); }
  void end() override { batches_.end(); }
  std::uint64_t consumed() const override { return batches_.consumed(); }
  std::uint64_t skipped() const override { return batches_.skipped(); }
  Group& take_group() override { return groups_.take(8); }
  void save(StateWriter& state) const override { state.put(batches_.delivered()); }
  void restore(StateReader& state, std::uint64_t consumed, std::uint64_t skipped) override {
    batches_.restore(consumed, skipped, state.get());
  }

 private:
  const std::shared_ptr<SlotPool> slots_;
  GroupPool groups_;
  BatchAssembler batches_;
};

struct Position {
  std::string state;
  std::uint64_t consumed = 0;
  std::uint64_t skipped = 0;
};

/// Drives a machine from `position` until it is drained, or it is cancelled.
class Schedule {
 public:
  Schedule(Machine& machine, const Case& from, const Position* position, Rng& rng)
      : machine_(machine), case_(from), rng_(rng) {
    if (position == nullptr) return;
    StateReader state(position->state);
    machine_.restore(state, position->consumed, position->skipped);
    next_ = position->consumed;
  }

  /// Outputs in the order in which they came, and positions behind each.
  std::vector<SequentialOutput> run(bool cancel, std::vector<Position>& positions) {
    for (int idle = 0; !machine_.drained() && idle < 1000; ++idle) {
      if (cancel && rng_.below(40) == 0) return outputs_;
      if (step(positions)) idle = 0;
    }
    EXPECT_TRUE(machine_.drained()) << "nothing goes on";
    while (take(positions)) {
    }
    outputs_.push_back({Kind::end, {}, machine_.consumed(), machine_.skipped()});
    return outputs_;
  }

 private:
  bool step(std::vector<Position>& positions) {
    switch (rng_.below(6)) {
      case 0:
      case 1:
        return admit();
      case 2:
      case 3: {
        if (groups_.empty()) return false;
        const std::size_t which = rng_.below(groups_.size());
        if (machine_.make(*groups_[which], rng_)) {
          groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(which));
        }
        return true;
      }
      case 4: {
        Group* const group = rng_.coin(0.2) ? machine_.give_up() : nullptr;
        if (group != nullptr) groups_.push_back(group);
        return group != nullptr;
      }
      default:
        return take(positions);
    }
  }

  bool admit() {
    if (ended_) return false;
    if (next_ == case_.elements.size()) {
      machine_.end();
      return ended_ = true;
    }
    const std::size_t room = machine_.room(rng_);
    if (room == 0) return false;
    Group& group = machine_.take_group();
    group.first = next_;
    group.count = 1 + rng_.below(std::min<std::size_t>(room, case_.elements.size() - next_));
    next_ += group.count;
    machine_.admit(group);
    groups_.push_back(&group);
    return true;
  }

  // One by one, since what was consumed is told behind each.
  bool take(std::vector<Position>& positions) {
    bool some = false;
    for (std::uint64_t wanted = 1 + rng_.below(4); wanted > 0; --wanted) {
      ElementRef item;
      if (machine_.take({&item, 1}) == 0) break;
      some = true;
      SequentialOutput output = output_of(item);
      output.consumed = machine_.consumed();
      output.skipped = machine_.skipped();
      outputs_.push_back(std::move(output));
      StateWriter state;
      machine_.save(state);
      positions.push_back({state.take(), machine_.consumed(), machine_.skipped()});
    }
    return some;
  }

  Machine& machine_;
  const Case& case_;
  Rng& rng_;
  std::vector<Group*> groups_;  // in flight
  std::uint64_t next_ = 0;
  bool ended_ = false;
  std::vector<SequentialOutput> outputs_;
};

std::unique_ptr<Machine> machine_for(const Case& from) {
  if (from.options.rows == 0) return std::make_unique<Values>(from);
  const auto rows = static_cast<std::int64_t>(from.options.rows);
  const Spec spec({{"x", DType::i64, {}}});
  const auto memory = std::make_shared<Memory>(std::uint64_t{1} << 20, Allocator::heap());
  const std::int64_t spare = from.options.skip && from.elements.size() % 2 == 0 ? 1 : 0;
  return std::make_unique<Batches>(
      from, std::make_shared<SlotPool>(SlotLayout(spec, rows, spare), 1 + from.elements.size() % 4,
                                       memory, nullptr, std::make_shared<Waker>()));
}

/// With `skip` a batch may be said to have consumed the bad elements right behind it or not,
/// whichever were made when it was; here it has. What was consumed at the end is of no use.
std::vector<SequentialOutput> settled(std::vector<SequentialOutput> outputs, const Case& from) {
  for (SequentialOutput& output : outputs) {
    if (output.kind == Kind::end) output.consumed = 0;
    if (output.kind != Kind::elements || !from.options.skip) continue;
    while (output.consumed < from.elements.size() && from.elements[output.consumed] != Made::good) {
      ++output.consumed;
      ++output.skipped;
    }
  }
  return outputs;
}

bool before(const SequentialOutput& a, const SequentialOutput& b) {
  return a.elements < b.elements;
}

/// Counts aside, and sorted: which came when is free.
std::vector<SequentialOutput> as_a_set(std::vector<SequentialOutput> outputs) {
  for (SequentialOutput& output : outputs) output.consumed = output.skipped = 0;
  std::sort(outputs.begin(), outputs.end(), before);
  return outputs;
}

void check(const Case& from, Rng& rng) {
  const std::vector<SequentialOutput> expected =
      settled(sequential(from.elements, from.options), from);
  const bool cancel = rng.below(5) == 0;
  std::vector<Position> positions;
  std::vector<SequentialOutput> outputs;
  {
    const std::unique_ptr<Machine> machine = machine_for(from);
    outputs = Schedule(*machine, from, nullptr, rng).run(cancel, positions);
  }
  const bool whole = !outputs.empty() && outputs.back().kind == Kind::end;
  ASSERT_TRUE(whole || cancel);
  if (from.ordered) {
    std::vector<SequentialOutput> said = expected;
    if (!whole) said.resize(std::min(said.size(), outputs.size()));
    ASSERT_EQ(settled(outputs, from), said);
  } else if (whole) {
    ASSERT_EQ(as_a_set(outputs), as_a_set(expected));
  }

  // What was taken up to a position and what comes behind it are all there is.
  if (positions.empty() || !rng.coin(0.5)) return;
  const std::size_t taken = 1 + rng.below(positions.size());
  if (outputs[taken - 1].kind == Kind::over) return;
  std::vector<Position> more;
  const std::unique_ptr<Machine> machine = machine_for(from);
  std::vector<SequentialOutput> rest =
      Schedule(*machine, from, &positions[taken - 1], rng).run(false, more);
  rest.insert(rest.begin(), outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(taken));
  if (from.ordered) {
    ASSERT_EQ(settled(rest, from), expected);
  } else {
    ASSERT_EQ(as_a_set(rest), as_a_set(expected));
  }
}

void check_all(bool batches) {
  const test::TimeLimit limit(1500);
  Rng rng(11, batches ? 1 : 2, 3);
  for (std::uint64_t i = 0, end = schedules() / 2; i < end; ++i) {
    const Case from = random_case(rng, batches);
    SCOPED_TRACE(testing::Message() << "case " << i);
    ASSERT_NO_FATAL_FAILURE(check(from, rng));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Schedules, OfBatchesComeToWhatASequentialRunGives) {
  check_all(true);
}

TEST(Schedules, OfValuesComeToWhatASequentialRunGives) {
  check_all(false);
}

}  // namespace
}  // namespace penstock
