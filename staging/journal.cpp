#include "staging/journal.h"

#include <algorithm>
#include <utility>

#include <penstock/error.h>

namespace penstock {
namespace {

bool is_given(const FeedJournal::Event& event) {
  return std::all_of(event.parts.begin(), event.parts.end(),
                     [](const FeedJournal::Part& part) { return part.given; });
}

/// Nobody's, a tower's, or given to it; a part that there is not was given to nobody.
std::uint64_t code_of(const FeedJournal::Part& part) {
  return 2 * static_cast<std::uint64_t>(part.tower + 1) + (part.given ? 1 : 0);
}

}  // namespace

void FeedJournal::start(std::string position, std::vector<Event> known, Counts counts) {
  MutexLock lock(mutex_);
  start_ = std::move(position);
  counts_ = counts;
  for (Event& event : known) kept_.push_back({{}, std::move(event)});
  if (!kept_.empty()) kept_.front().position = start_;
}

bool FeedJournal::wants_position(std::int64_t now) const {
  MutexLock lock(mutex_);
  return looked_ns_ && now - *looked_ns_ >= kEvery_ns;
}

// In the memory of one that was forgotten.
FeedJournal::Kept FeedJournal::fresh() {
  Kept kept;
  if (!spare_.empty()) {
    kept = std::move(spare_.back());
    spare_.pop_back();
  }
  kept.event.end = false;
  kept.event.parts.assign(queues_.size(), Part());
  return kept;
}

std::uint64_t FeedJournal::begin(std::string position, std::int64_t now) {
  MutexLock lock(mutex_);
  if (next_ == 0) position = start_;
  if (!looked_ns_ || !position.empty()) looked_ns_ = now;
  const auto at = static_cast<std::size_t>(next_ - first_);
  if (at == kept_.size()) kept_.push_back(fresh());
  kept_[at].position = std::move(position);
  forget_what_is_given();
  return next_++;
}

void FeedJournal::set_end(std::uint64_t event) {
  MutexLock lock(mutex_);
  kept_[static_cast<std::size_t>(event - first_)].event.end = true;
}

FeedJournal::Part FeedJournal::part(std::uint64_t event, std::size_t part) const {
  MutexLock lock(mutex_);
  return kept_[static_cast<std::size_t>(event - first_)].event.parts[part];
}

void FeedJournal::drop(std::uint64_t event, std::size_t part) {
  MutexLock lock(mutex_);
  at({event, part}) = {kNobody, true};
}

void FeedJournal::assign(std::uint64_t event, std::size_t part, int tower) {
  MutexLock lock(mutex_);
  at({event, part}).tower = tower;
  queues_[static_cast<std::size_t>(tower)].push_back({event, part});
}

void FeedJournal::given(int tower, std::int64_t rows) {
  MutexLock lock(mutex_);
  at(queues_[static_cast<std::size_t>(tower)].pop_front()).given = true;
  if (rows < 0) return;
  ++counts_.batches;
  counts_.elements += static_cast<std::uint64_t>(rows);
}

FeedJournal::Counts FeedJournal::counts() const {
  MutexLock lock(mutex_);
  return counts_;
}

// Up to the last position that has nothing in front of it that is still to be given.
void FeedJournal::forget_what_is_given() {
  std::size_t last = 0;
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    if (!kept_[i].position.empty()) last = i;
    if (!is_given(kept_[i].event)) break;
  }
  for (std::size_t i = 0; i < last; ++i) {
    Kept gone = kept_.pop_front();
    ++first_;  // at once: what follows may find no memory, and others go on
    spare_.push_back(std::move(gone));
  }
}

void FeedJournal::save(StateWriter& writer) const {
  MutexLock lock(mutex_);
  std::size_t from = 0;
  std::size_t to = 0;
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const auto& parts = kept_[i].event.parts;
    const bool touched = std::any_of(parts.begin(), parts.end(), [](const Part& part) {
      return part.given || part.tower != kNobody;
    });
    if (touched) to = i + 1;
  }
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    if (!kept_[i].position.empty()) from = i;
    if (!is_given(kept_[i].event)) break;
  }
  writer.put_bytes(kept_.empty() ? start_ : kept_[from].position);
  writer.put(counts_.batches);
  writer.put(counts_.elements);
  writer.put(std::max(from, to) - from);
  for (std::size_t i = from; i < to; ++i) {
    writer.put(kept_[i].event.end ? 1U : 0U);
    for (const Part& part : kept_[i].event.parts) writer.put(code_of(part));
  }
}

FeedJournal::Saved FeedJournal::read(StateReader& reader, int towers) {
  const auto refuse = [] { throw Error(ErrorCode::data_loss, "a feed's state is damaged"); };
  Saved saved;
  saved.position = reader.get_bytes();
  saved.counts.batches = reader.get();
  saved.counts.elements = reader.get();
  for (std::uint64_t left = reader.get(); left > 0; --left) {
    Event& event = saved.events.emplace_back();
    const std::uint64_t kind = reader.get();
    if (kind > 2) refuse();
    event.end = kind >= 1;  // 2: earlier versions said that it was the last
    for (int t = 0; t < towers; ++t) {
      const std::uint64_t code = reader.get();
      if (code / 2 > static_cast<std::uint64_t>(towers)) refuse();
      event.parts.push_back({static_cast<int>(code / 2) - 1, code % 2 == 1});
    }
  }
  return saved;
}

}  // namespace penstock
