#include "staging/steps.h"

#include <algorithm>
#include <utility>

namespace penstock {
namespace {

/// Returns the number of rows; -1 if the element has none.
std::int64_t rows_in(const Element& batch) {
  if (batch.valid_rows >= 0) return batch.valid_rows;
  return batch.empty() || batch[0].rank() == 0 ? -1 : batch[0].dim(0);
}

/// Appends rows [first, first + count) of the joined pieces to `out`.
void take_rows(const std::vector<Piece>& pieces, std::int64_t first, std::int64_t count,
               std::vector<Piece>& out) {
  for (const Piece& piece : pieces) {
    const std::int64_t here = std::min(piece.count - first, count);
    if (here > 0) {
      out.push_back({piece.batch, piece.first + first, here, piece.shared, piece.whole});
      count -= here;
    }
    first = std::max<std::int64_t>(first - piece.count, 0);
    if (count == 0) return;
  }
}

std::int64_t rows_in(const std::vector<Piece>& pieces) {
  std::int64_t rows = 0;
  for (const Piece& piece : pieces) rows += piece.count;
  return rows;
}

}  // namespace

void StepMaker::Gathered::clear() {
  pieces.clear();
  rows = 0;
  batches = 0;
  complete = false;
}

StepMaker::StepMaker(std::vector<BatchSource*> sources, const FeedOptions& options, int towers,
                     StepRules rules)
    : sources_(std::move(sources)),
      options_(options),
      towers_(towers),
      rules_(rules),
      ahead_(sources_.size()) {}

Piece StepMaker::piece_of(Element batch) const {
  Piece piece{std::move(batch), 0, 0, rules_.kept, !rules_.divisible};
  piece.count = rows_in(piece.batch);
  return piece;
}

bool StepMaker::pull(std::size_t source, std::optional<Element>& batch, Step& step) {
  Ahead& ahead = ahead_[source];
  batch = std::exchange(ahead.batch, std::nullopt);
  if (batch || ahead.ended) return true;
  Next next = sources_[source]->next();
  const bool known_as_bad = step.pulls == fails_at_;
  if (known_as_bad) fails_at_ = kNone;
  if (next.is_error()) {
    step.error = next.error();
    return false;
  }
  ahead.ended = next.is_end();
  if (ahead.ended && sources_[source]->broke_off()) {
    step.stopped = over_ = true;
    return false;
  }
  if (known_as_bad) {
    step.error = Error(ErrorCode::data_loss,
                       "this element failed before the feed was restored, and is skipped");
    return false;
  }
  ++step.pulls;
  if (ahead.ended) return true;
  batch = std::move(next.value());
  if (rows_in(*batch) < 0) {
    step.error =
        Error(ErrorCode::mismatch, "a feed takes batches, and was given an element without rows");
    return false;
  }
  for (std::size_t i = 0; i < batch->size(); ++i) {
    Tensor& tensor = (*batch)[i];
    if (!tensor.contiguous()) tensor = tensor.clone();
  }
  return true;
}

bool StepMaker::gather(Gathered& into, Step& step) {
  const std::size_t wanted = divided() ? 1 : static_cast<std::size_t>(towers_);
  while (into.pieces.size() < wanted) {
    std::optional<Element> batch;
    if (!pull(sharded() ? into.pieces.size() : 0, batch, step)) return false;
    if (!batch && !sharded()) break;
    into.pieces.push_back(batch ? piece_of(std::move(*batch)) : Piece());
    into.batches += batch ? 1 : 0;
    into.rows += into.pieces.back().count;
  }
  into.complete = true;
  return true;
}

bool StepMaker::look_ahead(Step& step) {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    std::optional<Element> batch;
    if (!pull(i, batch, step)) return false;
    ahead_[i].batch = std::move(batch);
  }
  return true;
}

bool StepMaker::all_ended() const noexcept {
  return std::all_of(ahead_.begin(), ahead_.end(),
                     [](const Ahead& ahead) { return ahead.ended && !ahead.batch; });
}

// Shards can't do this themselves: only here it is known which elements are the last of the whole.
// Row r of tower t is element r * N + t.
void StepMaker::drop_remainder(Gathered& rest) const {
  const auto shorter = [](const Piece& a, const Piece& b) { return a.count < b.count; };
  for (; rest.rows % rules_.rows > 0; --rest.rows)
    --std::max_element(rest.pieces.rbegin(), rest.pieces.rend(), shorter)->count;
}

bool StepMaker::deal_whole(Step& step) {
  std::size_t t = 0;
  for (Share& share : step.shares) share.pieces.push_back(std::move(gathered_.pieces[t++]));
  if (options_.end == EpochEnd::pad || rules_.padded) pad(step);
  gathered_.clear();
  return true;
}

bool StepMaker::deal_divided(Step& step) {
  const Piece& batch = gathered_.pieces[0];
  std::int64_t first = 0;
  for (Share& share : step.shares) {
    const std::int64_t count = std::clamp<std::int64_t>(batch.count - first, 0, rules_.rows);
    if (count > 0) share.pieces.push_back({batch.batch, first, count, batch.shared, false});
    first += rules_.rows;
  }
  if (rules_.padded) pad(step);
  gathered_.clear();
  return true;
}

void StepMaker::pad(Step& step) const {
  for (Share& share : step.shares) share.padded_rows = rules_.rows;
}

void StepMaker::deal_rest(const Gathered& rest, Step& step) const {
  const bool row_by_row = divided() || (rules_.rows > 0 && rules_.joinable && rules_.divisible &&
                                        !rules_.padded && (!sharded() || spreading_));
  std::int64_t first = 0;
  for (std::int64_t t = 0; t < towers_; ++t) {
    const auto at = static_cast<std::size_t>(t);
    Share& share = step.shares[at];
    if (row_by_row) {
      const std::int64_t count = (rest.rows - t + towers_ - 1) / towers_;
      take_rows(rest.pieces, first, count, share.pieces);
      first += count;
    } else if (at < rest.pieces.size() && rest.pieces[at].count > 0) {
      share.pieces.push_back(rest.pieces[at]);
    }
  }
}

// Fills the step with elements of the next epoch, in order, and repeats them if there are too few.
bool StepMaker::complete_rest(const Gathered& rest, Step& step) {
  if (!open_next_epoch()) return false;
  if (!upcoming_.complete) {
    if (upcoming_.pieces.empty() && saves_) before_upcoming_ = save_sources();
    const bool begun = !upcoming_.pieces.empty();
    if (!gather(upcoming_, step)) return false;
    if (begun) before_upcoming_.clear();  // an error was reported after that position
    for (Piece& piece : upcoming_.pieces) piece.shared = true;
  }
  std::vector<Piece> order;
  if (!sharded()) order = upcoming_.pieces;
  if (sharded()) {
    Gathered next = upcoming_;
    if (rules_.drop_remainder && next.rows < full()) drop_remainder(next);
    for (std::int64_t row = 0; row < rules_.rows; ++row) {
      for (const Piece& piece : next.pieces) {
        if (row < piece.count) order.push_back({piece.batch, row, 1, true, false});
      }
    }
  }
  const std::int64_t total = rows_in(order);
  if (total == 0) return false;
  deal_rest(rest, step);
  std::int64_t at = 0;
  for (Share& share : step.shares) {
    std::int64_t missing = rules_.rows - rows_in(share.pieces);
    wrapped_.fetch_add(static_cast<std::uint64_t>(missing), std::memory_order_relaxed);
    while (missing > 0) {
      const std::int64_t count = std::min(missing, total - at);
      take_rows(order, at, count, share.pieces);
      at = (at + count) % total;
      missing -= count;
    }
  }
  return true;
}

bool StepMaker::end_epoch(Gathered& rest, Step& step) {
  if (rules_.drop_remainder && sharded()) drop_remainder(rest);
  bool delivered = false;
  ending_ = true;
  if (rest.rows > 0) {
    switch (options_.end) {
      case EpochEnd::drop:
        break;
      case EpochEnd::pad:
        deal_rest(rest, step);
        pad(step);
        delivered = true;
        break;
      case EpochEnd::wrap:
        delivered = complete_rest(rest, step);
        if (step.error || step.stopped) return true;
        break;
      case EpochEnd::stop:
        deal_rest(rest, step);
        delivered = every_tower_has_rows(step);
        break;
    }
  }
  if (!delivered) lose(rest, step);
  ending_ = false;
  at_.epoch_over = true;
  gathered_.clear();
  spread_.clear();
  spreading_ = false;
  return delivered;
}

bool StepMaker::every_tower_has_rows(const Step& step) {
  return std::all_of(step.shares.begin(), step.shares.end(),
                     [](const Share& share) { return !share.pieces.empty(); });
}

void StepMaker::lose(const Gathered& rest, Step& step) {
  for (Share& share : step.shares) share.pieces.clear();
  lost_.fetch_add(static_cast<std::uint64_t>(rest.rows), std::memory_order_relaxed);
}

// Returns false if the epoch is over and there is no step.
bool StepMaker::make_step(Step& step) {
  if (ending_) return end_epoch(spreading_ ? spread_ : gathered_, step);
  while (!spreading_) {
    if (!gathered_.complete) {
      if (upcoming_.complete) {
        std::swap(gathered_, upcoming_);
        upcoming_.clear();
      } else if (!gather(gathered_, step)) {
        return true;
      }
    }
    if (divided()) {
      if (gathered_.batches == 0) return end_epoch(gathered_, step);
      if (gathered_.rows == full() || rules_.padded) return deal_divided(step);
    } else {
      const bool all = gathered_.batches == static_cast<std::size_t>(towers_);
      if (all && (!rules_.full_but_last || gathered_.rows == full())) return deal_whole(step);
      if (gathered_.batches == 0 || (!all && !sharded())) return end_epoch(gathered_, step);
    }
    if (rules_.full_but_last || sharded()) {
      if (!look_ahead(step)) return true;
      if (all_ended()) return end_epoch(gathered_, step);
    }
    if (sharded()) {
      spreading_ = true;
      asked_ = 0;
      std::swap(spread_, gathered_);
      std::erase_if(spread_.pieces, [](const Piece& piece) { return piece.batch.empty(); });
    } else if (!divided()) {
      return deal_whole(step);
    } else if (deal_short(step)) {
      return true;
    }
  }
  return make_from_spread(step);
}

bool StepMaker::deal_short(Step& step) {
  if (options_.end != EpochEnd::drop) deal_rest(gathered_, step);
  if (options_.end == EpochEnd::pad) pad(step);
  const bool delivered = options_.end == EpochEnd::pad || every_tower_has_rows(step);
  if (!delivered) lose(gathered_, step);
  gathered_.clear();
  return delivered;
}

bool StepMaker::make_from_spread(Step& step) {
  const bool as_they_are = !rules_.full_but_last || !rules_.joinable;
  for (;;) {
    if (as_they_are && spread_.pieces.size() >= step.shares.size()) {
      for (Share& share : step.shares) {
        spread_.rows -= spread_.pieces.front().count;
        share.pieces.push_back(std::move(spread_.pieces.front()));
        spread_.pieces.erase(spread_.pieces.begin());
      }
      if (options_.end == EpochEnd::pad) pad(step);
      return true;
    }
    if (!as_they_are && spread_.rows >= full()) {
      std::int64_t first = 0;
      for (Share& share : step.shares) {
        take_rows(spread_.pieces, first, rules_.rows, share.pieces);
        first += rules_.rows;
      }
      std::vector<Piece> left;
      take_rows(spread_.pieces, full(), spread_.rows - full(), left);
      spread_.pieces = std::move(left);
      spread_.rows -= full();
      return true;
    }
    if (all_ended()) return end_epoch(spread_, step);
    if (!refill_spread(step)) return true;
  }
}

bool StepMaker::refill_spread(Step& step) {
  for (; asked_ < sources_.size(); ++asked_) {
    std::optional<Element> batch;
    if (!pull(asked_, batch, step)) return false;
    if (!batch) continue;
    // Without a copy, the slots of one shard would have to be enough for all towers.
    for (std::size_t i = 0; i < batch->size(); ++i) (*batch)[i] = (*batch)[i].clone();
    spread_.pieces.push_back(piece_of(std::move(*batch)));
    spread_.rows += spread_.pieces.back().count;
  }
  asked_ = 0;
  return true;
}

bool StepMaker::open_next_epoch() {
  if (at_.opened) return true;
  bool all = true;
  for (BatchSource* source : sources_) all = source->next_epoch() && all;
  for (Ahead& ahead : ahead_) ahead.ended = false;
  at_.opened = all;
  return all;
}

std::vector<std::string> StepMaker::save_sources() const {
  std::vector<std::string> saved;
  for (const BatchSource* source : sources_) saved.push_back(source->save());
  return saved;
}

bool StepMaker::has_position() const noexcept {
  const bool ahead = std::any_of(ahead_.begin(), ahead_.end(),
                                 [](const Ahead& each) { return each.batch.has_value(); });
  const bool within = gathered_.complete || !gathered_.pieces.empty() || spreading_;
  const bool looked = upcoming_.complete && !before_upcoming_.empty();
  return !ahead && !within && (looked || (!upcoming_.complete && upcoming_.pieces.empty()));
}

StepMaker::Position StepMaker::position() const {
  Position position = at_;
  position.lost = lost();
  position.wrapped = wrapped();
  position.sources = upcoming_.complete ? before_upcoming_ : save_sources();
  return position;
}

void StepMaker::resume_at(const Position& position) {
  at_ = position;
  at_.sources.clear();
  lost_.store(position.lost, std::memory_order_relaxed);
  wrapped_.store(position.wrapped, std::memory_order_relaxed);
}

void StepMaker::next(Step& step, std::uint64_t fails_at) {
  step.shares.resize(static_cast<std::size_t>(towers_));
  for (Share& share : step.shares) {
    share.pieces.clear();
    share.padded_rows = 0;
  }
  step.end = step.last = step.stopped = false;
  step.error.reset();
  step.pulls = 0;
  fails_at_ = fails_at;
  if (!at_.epoch_over && !over_ && make_step(step)) return;
  step.end = true;
  at_.epoch_over = false;
  ++at_.epoch;
  over_ = over_ || at_.epoch >= options_.run.epochs || !open_next_epoch();
  at_.opened = false;
  step.last = over_;
}

}  // namespace penstock
