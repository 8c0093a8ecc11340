#include "staging/replay.h"

#include <algorithm>
#include <utility>

namespace penstock {
namespace {

std::int64_t scaled(std::int64_t cost, double by) {
  return by >= 1 ? cost : static_cast<std::int64_t>(static_cast<double>(cost) * by);
}

}  // namespace

Replay::Replay(const Bounds& bounds, const Without& without)
    : bounds_(bounds), without_(without), feeder_(bounds.start) {
  Lane lane;
  lane.past.resize(static_cast<std::size_t>(std::max(bounds.flights, bounds.flights_wanted) +
                                            bounds.flights_a_slot));
  lane.ready = lane.asked = lane.got = lane.stepped = bounds.start;
  lanes_.assign(static_cast<std::size_t>(bounds.towers), lane);
  Line line;
  line.made = bounds.start;
  lines_.assign(std::max(lanes_.size(), static_cast<std::size_t>(bounds_.lines)), line);
}

void Replay::measure(const StepTimes& times, StepCosts& costs) {
  measuring_ = true;
  costs.pulls.resize(times.pulls.size());
  costs.batches.resize(times.batches.size());
  step(times, costs, 1);
}

void Replay::replay(const StepTimes& times, StepCosts& costs, const std::vector<InputPart>& parts) {
  const auto part = static_cast<std::size_t>(without_.part);
  const InputPart all = without_.part >= 0 && part < parts.size() ? parts[part] : InputPart{};
  step(times, costs, without_.half ? all.half : all.left);
}

// Zero or less: there is no limit.
int Replay::slots() const noexcept {
  if (without_.slots) return without_.half ? bounds_.slots + 1 : 0;
  return without_.budget ? std::max(bounds_.slots, bounds_.slots_wanted) : bounds_.slots;
}

int Replay::flights() const noexcept {
  if (without_.slots) return without_.half ? bounds_.flights + bounds_.flights_a_slot : 0;
  return without_.budget ? std::max(bounds_.flights, bounds_.flights_wanted) : bounds_.flights;
}

std::int64_t Replay::event(std::int64_t earliest, std::int64_t& cost, std::int64_t happened) const {
  if (!measuring_) return earliest + cost;
  cost = std::max<std::int64_t>(0, happened - earliest);
  return happened;
}

const Replay::Past* Replay::past(const Lane& lane, int back) const {
  const auto wanted = static_cast<std::uint64_t>(back);
  return back < 1 || wanted > lane.batches ? nullptr
                                           : &lane.past[(lane.batches - wanted) % lane.past.size()];
}

void Replay::step(const StepTimes& times, StepCosts& costs, double left) {
  for (int t = 0; t < bounds_.towers; ++t) {
    if (!plays(t)) continue;
    if (const Past* last = past(lane(t), flights())) feeder_ = std::max(feeder_, last->ended);
  }
  feeder_ = event(feeder_, costs.room, times.roomed);
  for (std::size_t i = 0; i < times.pulls.size(); ++i) pull(times.pulls[i], costs.pulls[i], left);
  for (int t = 0; t < bounds_.towers; ++t) {
    const auto at = static_cast<std::size_t>(t);
    if (!times.given[at]) continue;
    if (plays(t)) {
      put(t, times.batches[at], costs.batches[at]);
    } else {
      feeder_ += costs.batches[at].fill;
    }
  }
  free_slots(times);
}

void Replay::pull(const PullTimes& times, StepCosts::Pull& costs, double left) {
  if (times.batch && times.made < 0) ++lines_[static_cast<std::size_t>(times.line)].pulled;
  if (times.made < 0 || !times.batch) {
    std::int64_t cost = scaled(costs.take, times.batch ? left : 1);
    feeder_ = event(feeder_, measuring_ ? costs.take : cost, times.got);
    return;
  }
  Line& line = lines_[static_cast<std::size_t>(times.line)];
  const auto slots = static_cast<std::uint64_t>(times.slots * (without_.budget ? 2 : 1));
  const std::uint64_t number = line.pulled++;
  std::int64_t earliest = line.made;
  if (slots > 0 && slots <= number && (!without_.budget || without_.half)) {
    const std::uint64_t kept_from = line.came_back - line.freed.size();
    if (number - slots >= kept_from && number - slots < line.came_back)
      earliest = std::max(earliest, line.freed[number - slots - kept_from]);
  }
  if (measuring_) earliest = std::max(earliest, std::min(times.begun, times.made));
  std::int64_t cost = scaled(costs.make, left);
  line.made = event(earliest, measuring_ ? costs.make : cost, times.made);
  feeder_ = event(std::max(feeder_, line.made), costs.take, times.got);
}

void Replay::put(int tower, const BatchTimes& times, StepCosts::Batch& costs) {
  Lane& to = lane(tower);
  const Past* const user = past(to, slots());
  std::int64_t earliest = feeder_;
  if (user != nullptr) earliest = std::max({earliest, user->released, user->ready});
  if (user != nullptr && bounds_.in_place) earliest = std::max(earliest, user->ended);
  const std::int64_t put = event(earliest, costs.claim, times.put);
  feeder_ = event(put, costs.fill, times.staged);
  Past now;
  std::int64_t less = without_.half ? costs.copy / 2 : 0;
  const std::int64_t behind = std::max({put, to.ready, user != nullptr ? user->ended : put});
  now.ready = event(behind, without_.copies ? less : costs.copy, times.ready);
  use(to, feeder_, now, times, costs);
  to.ready = now.ready;
  to.past[to.batches++ % to.past.size()] = now;
}

// If a tower's thread asks for a batch or releases it after its step, it waits for the step.
// Otherwise it runs ahead.
void Replay::use(Lane& lane, std::int64_t staged, Past& past, const BatchTimes& times,
                 StepCosts::Batch& costs) {
  if (measuring_) costs.asked_behind_step = times.asked >= lane.stepped;
  lane.asked = event(costs.asked_behind_step ? lane.stepped : lane.got, costs.ask, times.asked);
  lane.got = std::max(lane.asked, staged);
  const std::int64_t ended_before =
      lane.batches > 0 ? lane.past[(lane.batches - 1) % lane.past.size()].ended : past.ready;
  const std::int64_t passed =
      event(std::max({lane.stepped, past.ready, lane.got}), costs.pass, times.passed);
  const std::int64_t alone = std::max(ended_before, past.ready);
  lane.stepped = event(passed, costs.step, times.stepped);
  if (measuring_) {
    costs.tail = times.ended > times.stepped ? std::max<std::int64_t>(0, times.ended - alone) : -1;
    costs.released_behind_step = times.released >= times.stepped;
  }
  past.ended = costs.tail < 0 ? lane.stepped : std::max(lane.stepped, alone + costs.tail);
  past.released =
      event(costs.released_behind_step ? lane.stepped : lane.got, costs.release, times.released);
}

void Replay::give_back(Line& line, std::int64_t at) {
  Ring<std::int64_t>& freed = line.freed;
  if (freed.size() == kMostSlots) freed.pop_front();
  freed.push_back(at);
  ++line.came_back;
  for (std::size_t i = freed.size() - 1; i > 0 && freed[i - 1] > freed[i]; --i)
    std::swap(freed[i - 1], freed[i]);
}

// The input gets a slot back when the batch was copied, or was used in place.
void Replay::free_slots(const StepTimes& times) {
  std::int64_t last = feeder_;
  bool any = false;
  const auto back = [&](int tower) {
    const Lane& from = lane(tower);
    const Past& past = from.past[(from.batches - 1) % from.past.size()];
    return bounds_.in_place ? std::max(past.ready, past.ended) : past.ready;
  };
  for (int t = 0; t < bounds_.towers; ++t) {
    if (!times.given[static_cast<std::size_t>(t)] || !plays(t)) continue;
    last = any ? std::max(last, back(t)) : back(t);
    any = true;
  }
  const bool one_each = !bounds_.divided && times.pulls.size() == lanes_.size();
  for (std::size_t i = 0; i < times.pulls.size(); ++i) {
    if (!times.pulls[i].batch) continue;
    const int tower = without_.others >= 0 ? without_.others : static_cast<int>(i);
    const bool own = one_each && times.given[i];
    give_back(lines_[static_cast<std::size_t>(times.pulls[i].line)], own ? back(tower) : last);
  }
}

}  // namespace penstock
