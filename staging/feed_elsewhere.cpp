// The towers of a feed, in this process and in others.
#include <string>

#include "staging/feed_impl.h"

namespace penstock {

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

bool Feed::Impl::ended(int number) const noexcept {
  const Tower& asked = tower_at(is_here(number) ? number - first_ : 0);
  return asked.over.load(std::memory_order_acquire) ||
         asked.ends.load(std::memory_order_acquire) >= last_end_.load(std::memory_order_acquire);
}

}  // namespace penstock
