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

/// Encodes the tower of a part (or none), and whether the part was given to it. A part that does
/// not exist counts as given to no tower.
std::uint64_t code_of(const FeedJournal::Part& part) {
  return 2 * static_cast<std::uint64_t>(part.tower + 1) + (part.given ? 1 : 0);
}

// Kinds of events in a state, besides 0 for a step. Earlier versions wrote 2 for the last end.
constexpr std::uint64_t kEnd = 1;
constexpr std::uint64_t kError = 3;  // plus Step::pulls

}  // namespace

void FeedJournal::start(std::string position, std::vector<Event> known, Counts counts) {
  MutexLock lock(mutex_);
  start_ = std::move(position);
  counts_ = counts;
  known_ = known.size();
  for (Event& event : known) kept_.push_back({{}, std::move(event)});
  if (!kept_.empty()) kept_.front().position = start_;
}

bool FeedJournal::wants_position(std::int64_t now) const {
  MutexLock lock(mutex_);
  return looked_ns_ && now - *looked_ns_ >= kEvery_ns;
}

// Reuses the memory of a forgotten event.
FeedJournal::Kept FeedJournal::fresh() {
  Kept kept;
  if (!spare_.empty()) {
    kept = std::move(spare_.back());
    spare_.pop_back();
  }
  kept.event.end = kept.event.error = false;
  kept.event.parts.assign(queues_.size(), Part());
  return kept;
}

std::uint64_t FeedJournal::begin(std::int64_t now) {
  MutexLock lock(mutex_);
  if (!looked_ns_) looked_ns_ = now;
  const auto at = static_cast<std::size_t>(next_ - first_);
  if (at == kept_.size()) kept_.push_back(fresh());
  kept_[at].position = next_ == 0 ? start_ : std::exchange(behind_, {});
  forget_what_is_given();
  return next_++;
}

void FeedJournal::set_position(std::string position, std::int64_t now) {
  MutexLock lock(mutex_);
  looked_ns_ = now;
  if (next_ > 1) kept_[static_cast<std::size_t>(next_ - 1 - first_)].position = std::move(position);
}

void FeedJournal::set_position_behind(std::string position) {
  MutexLock lock(mutex_);
  behind_ = std::move(position);
}

void FeedJournal::set_end(std::uint64_t event) {
  MutexLock lock(mutex_);
  kept_[static_cast<std::size_t>(event - first_)].event.end = true;
}

void FeedJournal::set_error(std::uint64_t event, std::uint64_t pulls) {
  MutexLock lock(mutex_);
  Event& failed = kept_[static_cast<std::size_t>(event - first_)].event;
  failed.error = true;
  failed.pulls = pulls;
}

std::optional<FeedJournal::Event> FeedJournal::known(std::uint64_t event) const {
  if (event >= known_) return std::nullopt;
  MutexLock lock(mutex_);
  return kept_[static_cast<std::size_t>(event - first_)].event;
}

void FeedJournal::stop(std::uint64_t event) {
  MutexLock lock(mutex_);
  stopped_ = std::min(stopped_, event - std::min<std::uint64_t>(event, 1));
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

void FeedJournal::assign_elsewhere(std::uint64_t event, int tower, std::int64_t rows) {
  MutexLock lock(mutex_);
  const auto part = static_cast<std::size_t>(tower);
  at({event, part}).tower = tower;
  queues_[part].push_back({event, part, rows});
}

void FeedJournal::given_elsewhere(int tower) {
  MutexLock lock(mutex_);
  give_oldest(tower, queues_[static_cast<std::size_t>(tower)].front().rows);
}

void FeedJournal::given(int tower, std::int64_t rows) {
  MutexLock lock(mutex_);
  give_oldest(tower, rows);
}

void FeedJournal::give_oldest(int tower, std::int64_t rows) {
  at(queues_[static_cast<std::size_t>(tower)].pop_front()).given = true;
  if (rows < 0) return;
  ++counts_.batches;
  counts_.elements += static_cast<std::uint64_t>(rows);
}

FeedJournal::Counts FeedJournal::counts() const {
  MutexLock lock(mutex_);
  return counts_;
}

// Forgets events up to the last position before which everything has been given.
void FeedJournal::forget_what_is_given() {
  std::size_t last = 0;
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    if (!kept_[i].position.empty()) last = i;
    if (!is_given(kept_[i].event)) break;
  }
  for (std::size_t i = 0; i < last; ++i) {
    Kept gone = kept_.pop_front();
    ++first_;  // at once, because the next line may find no memory
    spare_.push_back(std::move(gone));
  }
}

bool FeedJournal::is_within(const Event& event) {
  const auto given = [](const Part& part) { return part.given; };
  return !is_given(event) && std::any_of(event.parts.begin(), event.parts.end(), given);
}

bool FeedJournal::save(StateWriter& writer) const {
  MutexLock lock(mutex_);
  std::size_t from = 0;
  std::size_t to = 0;
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const auto& parts = kept_[i].event.parts;
    // Where towers are served in turn, it is clear which of them gets a part.
    const bool touched = std::any_of(parts.begin(), parts.end(), [this](const Part& part) {
      return part.given || (!exact_ && part.tower != kNobody);
    });
    if (touched && first_ + i < stopped_) to = i + 1;
  }
  bool all_given = true;
  for (std::size_t i = 0; i < kept_.size() && all_given; ++i) {
    if (!kept_[i].position.empty()) from = i;
    all_given = is_given(kept_[i].event);
  }
  if (kept_.empty()) {
    writer.put_bytes(start_);
  } else if (all_given && !behind_.empty() && to == kept_.size()) {
    writer.put_bytes(behind_);
    from = to;
  } else {
    writer.put_bytes(kept_[from].position);
  }
  writer.put(counts_.batches);
  writer.put(counts_.elements);
  writer.put(std::max(from, to) - from);
  bool within = false;
  for (std::size_t i = from; i < to; ++i) {
    const Event& event = kept_[i].event;
    within = within || is_within(event);
    writer.put(event.error ? kError + event.pulls : event.end ? kEnd : 0);
    for (const Part& part : kept_[i].event.parts) writer.put(code_of(part));
  }
  return !within;
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
    event.error = kind >= kError;
    event.end = kind >= kEnd && !event.error;
    if (event.error) event.pulls = kind - kError;
    for (int t = 0; t < towers; ++t) {
      const std::uint64_t code = reader.get();
      if (code / 2 > static_cast<std::uint64_t>(towers)) refuse();
      event.parts.push_back({static_cast<int>(code / 2) - 1, code % 2 == 1});
    }
  }
  return saved;
}

}  // namespace penstock
