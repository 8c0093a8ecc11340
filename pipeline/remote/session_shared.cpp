// Groups whose elements are partly made for other runs.
#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "pipeline/remote/session_work.h"

namespace penstock::remote {
namespace {

using Clock = std::chrono::steady_clock;

/// After this time, a run makes elements itself that another run has not made yet.
constexpr std::chrono::seconds kMostWait{2};

bool failed(const Group& group, std::size_t item) {
  return std::ranges::any_of(group.failures,
                             [item](const auto& failure) { return failure.first == item; });
}

/// Returns a view of one row.
Element element_at(const Slot& slot, std::size_t row) {
  const SlotLayout& layout = slot.layout();
  Element element;
  element.start(layout.names);
  for (std::size_t c = 0; c < layout.element.size(); ++c) {
    const ComponentSpec& component = layout.element[c];
    if (component.dtype == DType::bytes)
      element.append(Tensor::bytes(slot.text(c, row), BufferPtr()));
    else
      element.append(component.dtype, component.shape, slot.row(row).data(c), BufferPtr());
  }
  return element;
}

/// Returns the rows of the slot for these items, as the fewest runs of neighbours.
std::vector<Place> places_of(Slot& slot, const std::vector<std::uint32_t>& items) {
  std::vector<Place> places;
  for (std::uint32_t i = 0; i < items.size(); ++i) {
    if (!places.empty() && places.back().row + places.back().count == items[i])
      ++places.back().count;
    else
      places.push_back({&slot, 0, items[i], i, 1});
  }
  return places;
}

}  // namespace

void Session::Awaited::told(std::size_t item, KeptPtr kept) noexcept {
  {
    const std::lock_guard lock(mutex_);
    told_[item] = std::move(kept);
    numbers_.push_back(static_cast<std::uint32_t>(item));
  }
  const std::lock_guard lock(bell_->mutex);
  if (bell_->session == nullptr) return;
  {
    const std::lock_guard session_lock(bell_->session->mutex_);
    bell_->session->to_tend_ = true;
  }
  bell_->session->changed_.notify_all();
}

std::vector<Session::Awaited::Told> Session::Awaited::take() {
  std::vector<Told> all;
  const std::lock_guard lock(mutex_);
  all.reserve(numbers_.size());
  for (const std::uint32_t item : numbers_) all.push_back({item, std::move(told_[item])});
  numbers_.clear();
  return all;
}

// The thread that takes messages continues a group as its elements come. While some elements of the
// group are being made, they belong to the runner alone.
void Session::share(const WorkPtr& work) {
  work->shares.assign(work->count, Work::Share::settled);
  if (!work->slot) {
    work->answers.resize(work->count);
    work->kept.resize(work->count);
  }
  {
    const std::lock_guard lock(mutex_);
    work->to_do.reserve(work->count);
    work->awaited = std::make_shared<Awaited>(bell_, work->count);
    ++shared_;
  }
  std::vector<std::uint32_t> all(work->count);
  std::iota(all.begin(), all.end(), 0U);
  ask(*work, all);
  go_on(work, 0);
}

void Session::ask(Work& work, std::span<const std::uint32_t> items) {
  using Found = ElementCache::Found;
  const auto answers = served_.cache->look(graph_, work.asked.keys, items, work.awaited);
  // Remember all claimed elements before anything can throw.
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Found found = answers[i].found;
    work.shares[items[i]] = found == Found::mine     ? Work::Share::mine
                            : found == Found::others ? Work::Share::others
                                                     : Work::Share::settled;
  }
  std::vector<std::uint32_t> to_do;
  std::size_t waits_for = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool there = answers[i].found == Found::kept && place(work, items[i], answers[i].kept);
    work.had += there ? 1 : 0;
    waits_for += answers[i].found == Found::others ? 1 : 0;
    if (!there && answers[i].found != Found::others) to_do.push_back(items[i]);
  }
  const std::lock_guard lock(mutex_);
  work.to_do.insert(work.to_do.end(), to_do.begin(), to_do.end());
  work.waits_for += waits_for;
}

// Puts an element in its place. Returns false if it does not fit there, although it did for its
// maker.
bool Session::place(Work& work, std::uint32_t item, const KeptPtr& kept) {
  if (work.slot) {
    WorkItem row;
    row.element = kept->element;
    return work.slot->store_fitting({&row, 1}, item) == 1;
  }
  WorkItem& answer = work.answers[item];
  answer.element = kept->element;
  answer.keep = kept->keep;
  answer.key = kept->key;
  work.kept[item] = kept;
  return true;
}

// `settled` of the awaited elements are in their places or must be made now.
void Session::go_on(const WorkPtr& work, std::size_t settled) {
  std::vector<std::uint32_t> next;
  {
    const std::lock_guard lock(mutex_);
    work->waits_for -= settled;
    if (work->making) return;
    if (work->to_do.empty() && work->waits_for > 0) return;
    work->over = work->to_do.empty();
    work->making = !work->over;
    next.swap(work->to_do);
  }
  if (next.empty()) return complete(work);
  try {
    make_some(*work, next);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    work->making = false;
    throw;
  }
}

void Session::make_some(Work& work, const std::vector<std::uint32_t>& items) {
  Group& group = work.group;
  group.drop_results(0);
  group.failures.clear();
  group.outliers.clear();
  group.parts.clear();
  group.items.clear();
  for (const std::uint32_t item : items) group.items.push_back(work.asked.items[item]);
  group.count = items.size();
  group.places.clear();
  if (work.slot) group.places = places_of(*work.slot, items);
  work.made = items;
  work.whole = items.size() == work.count;
  {
    const std::lock_guard lock(mutex_);
    work.to_do.reserve(work.count);
  }
  start(work);
}

// Passes the elements that were made to other runs, and adds them to the results. Returns true if
// the group is complete.
bool Session::made_some(Work& work) noexcept {
  bool broken = false;
  {
    const std::lock_guard lock(mutex_);
    broken = work.broken;
  }
  const bool none = broken || stopping();
  if (!none) {
    give_to_others(work);
    try {
      keep_results(work);
    } catch (...) {
      broken = true;
    }
  }
  for (const std::uint32_t item : work.made) {
    if (work.shares[item] != Work::Share::mine) continue;
    work.shares[item] = Work::Share::settled;
    served_.cache->fail(graph_, work.asked.keys[item]);
  }
  {
    const std::lock_guard lock(mutex_);
    work.making = false;
    work.broken = work.broken || broken;
    work.over = work.waits_for == 0 && work.to_do.empty();
    if (work.over) return true;
    to_tend_ = true;
    changed_.notify_all();  // once the lock is free, the session may be destroyed
  }
  return false;
}

void Session::give_to_others(Work& work) noexcept {
  for (std::size_t i = 0; i < work.made.size(); ++i) {
    const std::uint32_t item = work.made[i];
    if (work.shares[item] != Work::Share::mine) continue;
    try {
      if (work.slot) {
        if (failed(work.group, i)) continue;
        const Element row = element_at(*work.slot, item);
        work.shares[item] = Work::Share::settled;
        served_.cache->give(graph_, work.asked.keys[item], row, true, 0);
      } else {
        const WorkItem& made = work.group.work[i];
        if (!made.status.ok()) continue;
        work.shares[item] = Work::Share::settled;
        served_.cache->give(graph_, work.asked.keys[item], made.keep ? made.element : Element(),
                            made.keep, made.key);
      }
    } catch (...) {
      return;  // no memory: waiting runs make the rest themselves
    }
  }
}

void Session::keep_results(Work& work) {
  work.computed += work.made.size();
  work.allocated += work.group.context ? work.group.context->allocated() : 0;
  if (work.whole) return;
  for (auto& [item, status] : work.group.failures)
    work.failures.emplace_back(work.made[item], std::move(status));
  std::ranges::sort(work.failures, {}, &Failures::value_type::first);
  if (work.slot) return;
  for (std::size_t i = 0; i < work.made.size(); ++i) {
    WorkItem& made = work.group.work[i];
    WorkItem& answer = work.answers[work.made[i]];
    answer.element = std::move(made.element);
    answer.status = std::move(made.status);
    answer.keep = made.keep;
    answer.key = made.key;
    made.status = Status();
  }
}

void Session::tend() noexcept {
  std::vector<WorkPtr> all;
  try {
    const std::lock_guard lock(mutex_);
    for (const auto& [group, work] : under_way_)
      if (work->awaited && !work->over) all.push_back(work);
  } catch (...) {
    return;  // it will be checked again
  }
  for (const WorkPtr& work : all) {
    try {
      tend(work);
    } catch (...) {
      give_up(work);
    }
  }
}

void Session::tend(const WorkPtr& work) {
  bool broken = false;
  {
    const std::lock_guard lock(mutex_);
    if (work->over) return;
    if (work->making && work->waits_for == 0) return;
    broken = work->broken;
  }
  if (broken || stopping()) return give_up(work);
  std::size_t settled = 0;
  std::vector<std::uint32_t> again;
  for (const Awaited::Told& told : work->awaited->take()) {
    if (work->shares[told.item] != Work::Share::others) continue;
    work->shares[told.item] = Work::Share::settled;
    ++settled;
    if (told.kept && place(*work, told.item, told.kept))
      ++work->had;
    else
      again.push_back(told.item);
  }
  if (Clock::now() - work->began < kMostWait) {
    if (!again.empty()) ask(*work, again);
    return go_on(work, settled);
  }
  for (std::uint32_t item = 0; item < work->count; ++item) {
    if (work->shares[item] != Work::Share::others) continue;
    work->shares[item] = Work::Share::settled;
    served_.cache->forget(graph_, work->asked.keys[item], *work->awaited);
    ++settled;
    again.push_back(item);
  }
  {
    const std::lock_guard lock(mutex_);
    work->to_do.insert(work->to_do.end(), again.begin(), again.end());
  }
  go_on(work, settled);
}

// Stops waiting for other runs. Elements that are being made are completed.
void Session::give_up(const WorkPtr& work) noexcept {
  for (std::uint32_t item = 0; item < work->count; ++item) {
    if (work->shares[item] != Work::Share::others) continue;
    work->shares[item] = Work::Share::settled;
    served_.cache->forget(graph_, work->asked.keys[item], *work->awaited);
  }
  {
    const std::lock_guard lock(mutex_);
    work->broken = true;
    work->waits_for = 0;
    work->to_do.clear();
    if (work->making) return;
    work->over = true;
  }
  complete(work);
}

void Session::withdraw(Work& work) noexcept {
  for (std::uint32_t item = 0; item < work.shares.size(); ++item) {
    const Work::Share share = std::exchange(work.shares[item], Work::Share::settled);
    if (share == Work::Share::mine) served_.cache->fail(graph_, work.asked.keys[item]);
    if (share == Work::Share::others)
      served_.cache->forget(graph_, work.asked.keys[item], *work.awaited);
  }
}

}  // namespace penstock::remote
