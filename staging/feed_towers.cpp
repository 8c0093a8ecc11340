// The towers of a feed: what those of this process take, and what those of others have taken.
#include <algorithm>
#include <string>
#include <utility>

#include "staging/feed_impl.h"

namespace penstock {
namespace {

const char* remedy_of(const FeedOptions& options) {
  const bool may_differ = options.in_turn && options.mode == FeedMode::per_tower;
  return may_differ ? "; with in_turn = false, towers take batches at a pace of their own"
                    : "; every tower of a feed must take its batches";
}

}  // namespace

Feed::Impl::Tower& Feed::Impl::named(int number) const {
  if (is_here(number)) return tower_at(number - first_);
  throw Error(ErrorCode::invalid_argument,
              "tower " + std::to_string(number) + " of " + std::to_string(all_) +
                  (number >= 0 && number < all_ ? " is another process's" : ""));
}

// Assumes that towers of other processes are as far as the first one here. All have begun at the
// same step, and their parts of a step are assigned before that of the first one here.
void Feed::Impl::given(int number, std::int64_t rows) {
  journal_.given(number, rows);
  for (int other = 0; number == first_ && other < all_; ++other)
    if (!is_here(other)) journal_.given_elsewhere(other);
}

void Feed::Impl::assign_elsewhere(std::uint64_t event, const Step& step) {
  if (step.stopped) return;
  for (int number = 0; number < all_; ++number) {
    const auto part = static_cast<std::size_t>(number);
    if (is_here(number) || journal_.part(event, part).given) continue;
    std::int64_t rows = step.error || step.end ? -1 : 0;
    if (rows == 0)
      for (const Piece& piece : step.shares[part].pieces) rows += piece.count;
    journal_.assign_elsewhere(event, number, rows);
  }
}

StagingState::Taken Feed::Impl::take(Tower& tower, const std::function<void()>& waiting) {
  constexpr std::int64_t kWaiting = 50'000'000;
  const std::int64_t asked = now();
  std::int64_t look_at = turns_.first_look(asked);
  for (;;) {
    const std::int64_t until = waiting ? std::min(look_at, now() + kWaiting) : look_at;
    StagingState::Taken taken = tower.area.state_->next(asked, until);
    if (!taken.late) {
      tower.took_ns.store(now());
      return taken;
    }
    if (waiting) waiting();
    if (now() < look_at) continue;
    const FeederWait wait = options_.in_turn ? turns_.get() : queue_.waits_for(tower.number);
    if (wait.tower == FeederWait::kNobody || wait.tower == tower.number) {
      look_at = turns_.first_look(now());
    } else {
      const Tower& awaited = tower_at(wait.tower);
      // It may take an epoch's end, which makes no room.
      const std::int64_t since = std::max({asked, wait.since, awaited.took_ns.load()});
      look_at = turns_.look(tower.name, awaited.name, since, now(), remedy_of(options_));
    }
  }
}

std::optional<StagedBatch> Feed::Impl::next(int number, const std::function<void()>& waiting) {
  Tower& tower = named(number);
  if (ended(number)) return std::nullopt;
  StagingState::Taken taken =
      take(tower, waiting);  // errors that it throws have no place in the order
  if (taken.over) {
    tower.over.store(true, std::memory_order_release);
    if (taken.error.ok()) return std::nullopt;
    throw Error(taken.error.error());
  }
  given(number, taken.batch ? taken.batch->valid_rows() : -1);
  ++tower.taken;
  if (!taken.error.ok()) throw Error(taken.error.error());
  if (!taken.batch) tower.ends.fetch_add(1, std::memory_order_acq_rel);
  return std::move(taken.batch);
}

bool Feed::Impl::ended(int number) const noexcept {
  const Tower& asked = tower_at(is_here(number) ? number - first_ : 0);
  return asked.over.load(std::memory_order_acquire) ||
         asked.ends.load(std::memory_order_acquire) >= last_end_.load(std::memory_order_acquire);
}

}  // namespace penstock
