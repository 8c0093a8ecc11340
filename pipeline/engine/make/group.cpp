#include "pipeline/engine/make/group.h"

#include <algorithm>

namespace penstock {

void Group::drop_results() noexcept {
  for (std::size_t i = 0; i < std::min(count, work.size()); ++i) {
    work[i].element.clear();
    work[i].status = Status();
  }
}

void Group::fail(std::size_t item, Status status) {
  const auto at = std::lower_bound(
      failures.begin(), failures.end(), item,
      [](const auto& failure, std::size_t wanted) { return failure.first < wanted; });
  if (at == failures.end() || at->first != item) failures.emplace(at, item, std::move(status));
}

void Group::start_over() noexcept {
  drop_results();
  failures.clear();
  outliers.clear();
  parts.clear();
  for (const Place& place : places) {
    for (std::uint32_t i = 0; i < place.count; ++i) place.slot->clear_row(place.row + i);
  }
  context.reset();
}

void Group::let_go() noexcept {
  // Records of a source hold nothing, and their program lives as long as the run.
  for (std::size_t i = 0; !alike && i < count; ++i) items[i] = ElementRef();
  // If results were stored in a batch, nothing of them is left here.
  if (places.empty()) drop_results();
  outliers.clear();
  parts.clear();
  context.reset();
}

std::vector<ElementRef> SpareItems::take() noexcept {
  MutexLock lock(mutex_);
  if (items_.empty()) return {};
  std::vector<ElementRef> items = std::move(items_.back());
  items_.pop_back();
  return items;
}

void SpareItems::give(std::vector<ElementRef> items) noexcept {
  MutexLock lock(mutex_);
  try {
    items_.push_back(std::move(items));
  } catch (...) {
    return;  // no memory to keep it, so it is freed
  }
}

// Groups that were returned hold nothing. Other groups are destroyed with their contents.
GroupPool::~GroupPool() {
  if (spare_ == nullptr) return;
  for (Group* group : free_) {
    if (!group->items.empty()) spare_->give(std::move(group->items));
  }
}

Group& GroupPool::take() {
  if (free_.empty()) {
    free_.reserve(groups_.size() + 1);
    groups_.push_back(std::make_unique<Group>());
    if (spare_ != nullptr) groups_.back()->items = spare_->take();
    free_.push_back(groups_.back().get());
  }
  Group& group = *free_.back();
  free_.pop_back();
  return group;
}

void GroupPool::give(Group& group) noexcept {
  group.places.clear();
  group.failures.clear();
  group.count = 0;
  group.taken = 0;
  group.done = false;
  free_.push_back(&group);
}

}  // namespace penstock
