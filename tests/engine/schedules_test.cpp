// The batch assembler and the ordered values alone, without threads: whatever the order in which
// groups are admitted, made, made again and taken, what comes is what the sequential model says.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <penstock/rng.h>

#include "tests/engine/schedule_machines.h"
#include "tests/engine/sequential_model.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace {

using test::Machine;
using test::machine_for;
using test::Made;
using test::Scheduled;
using test::sequential;
using test::SequentialOptions;
using test::SequentialOutput;
using Kind = SequentialOutput::Kind;

/// PENSTOCK_SCHEDULES says otherwise; tools/reliability.sh runs a million.
std::uint64_t schedules() {
  const char* const text = std::getenv("PENSTOCK_SCHEDULES");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 30'000;
}

Scheduled random_case(Rng& rng, bool batches) {
  Scheduled made;
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

struct Position {
  std::string state;
  std::uint64_t consumed = 0;
  std::uint64_t skipped = 0;
};

/// Drives a machine from `position` until it is drained, or it is cancelled.
class Schedule {
 public:
  Schedule(Machine& machine, const Scheduled& from, const Position* position, Rng& rng)
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
    EXPECT_TRUE(machine_.drained()) << "nothing continues";
    while (take(positions)) {
    }
    outputs_.push_back({Kind::end, {}, machine_.consumed(), machine_.skipped()});
    return outputs_;
  }

 private:
  bool step(std::vector<Position>& positions) {
    switch (rng_.below(5)) {
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
  const Scheduled& case_;
  Rng& rng_;
  std::vector<Group*> groups_;  // in flight
  std::uint64_t next_ = 0;
  bool ended_ = false;
  std::vector<SequentialOutput> outputs_;
};

/// With `skip` a batch may be said to have consumed the bad elements right behind it or not,
/// whichever were made when it was; here it has. What was consumed at the end is of no use.
std::vector<SequentialOutput> settled(std::vector<SequentialOutput> outputs,
                                      const Scheduled& from) {
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

void check(const Scheduled& from, Rng& rng) {
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
    const Scheduled from = random_case(rng, batches);
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
