#include "staging/steps.h"

#include <algorithm>

#include <penstock/state.h>

namespace penstock {
namespace {

std::int64_t rows_in(const Element& batch) {
  if (batch.valid_rows >= 0) return batch.valid_rows;
  throw Error(ErrorCode::invalid_argument, "a feed takes batches, and was given an element");
}

/// Rows [first, first + count) of what the pieces hold one below the other.
void take_rows(const std::vector<Piece>& pieces, std::int64_t first, std::int64_t count,
               std::vector<Piece>& out) {
  for (const Piece& piece : pieces) {
    const std::int64_t here = std::min(piece.count - first, count);
    if (here > 0) {
      out.push_back({piece.batch, piece.first + first, here, piece.shared});
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

StepMaker::StepMaker(std::vector<BatchSource*> sources, const FeedOptions& options, int towers,
                     std::int64_t rows, bool drop_remainder)
    : sources_(std::move(sources)),
      options_(options),
      towers_(towers),
      rows_(rows),
      drop_remainder_(drop_remainder) {}

bool StepMaker::gather(Gathered& into, Step& step) {
  into.pieces.clear();
  into.rows = 0;
  const std::int64_t batches = options_.mode == FeedMode::split ? 1 : towers_;
  for (std::int64_t i = 0; i < batches; ++i) {
    Next next = sources_[sharded() ? static_cast<std::size_t>(i) : 0]->next();
    if (next.is_error()) {
      step.error = next.error();
      return false;
    }
    if (next.is_end()) {
      if (!sharded()) break;
      into.pieces.push_back({});
      continue;
    }
    Element& batch = next.value();
    const std::int64_t rows = rows_in(batch);
    into.pieces.push_back({std::move(batch), 0, rows, false});
    into.rows += rows;
  }
  if (drop_remainder_ && into.rows < full()) drop_remainder(into);
  return true;
}

// Shards can't: which elements are the whole's last shows only here. Row r of tower t is element
// r * N + t.
void StepMaker::drop_remainder(Gathered& from) const {
  const auto shorter = [](const Piece& a, const Piece& b) { return a.count < b.count; };
  for (; from.rows % rows_ > 0; --from.rows)
    --std::max_element(from.pieces.rbegin(), from.pieces.rend(), shorter)->count;
}

void StepMaker::deal_full(Gathered& from, Step& step) const {
  for (std::int64_t t = 0; t < towers_; ++t) {
    Share& share = step.shares[static_cast<std::size_t>(t)];
    if (options_.mode == FeedMode::split) {
      share.pieces.push_back({from.pieces[0].batch, t * rows_, rows_, from.pieces[0].shared});
    } else {
      share.pieces.push_back(std::move(from.pieces[static_cast<std::size_t>(t)]));
    }
  }
  from.pieces.clear();
}

void StepMaker::deal_rest(const Gathered& from, Step& step) const {
  std::int64_t first = 0;
  for (std::int64_t t = 0; t < towers_; ++t) {
    Share& share = step.shares[static_cast<std::size_t>(t)];
    if (sharded()) {
      const Piece& piece = from.pieces[static_cast<std::size_t>(t)];
      if (piece.count > 0) share.pieces.push_back(piece);
    } else {
      const std::int64_t count = (from.rows - t + towers_ - 1) / towers_;
      take_rows(from.pieces, first, count, share.pieces);
      first += count;
    }
  }
}

// Elements of the next epoch, in their order, over and over if there are too few.
bool StepMaker::complete(Step& step) {
  if (!open_next_epoch()) return false;
  if (saves_) before_upcoming_ = save_sources();
  if (!gather(upcoming_, step)) return false;
  has_upcoming_ = true;
  for (Piece& piece : upcoming_.pieces) piece.shared = true;
  std::vector<Piece> order;
  if (!sharded()) {
    order = upcoming_.pieces;
  } else {
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (const Piece& piece : upcoming_.pieces) {
        if (row < piece.count) order.push_back({piece.batch, row, 1, true});
      }
    }
  }
  const std::int64_t total = rows_in(order);
  if (total == 0) return false;
  std::int64_t at = 0;
  for (Share& share : step.shares) {
    std::int64_t missing = rows_ - rows_in(share.pieces);
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

void StepMaker::finish_epoch(Step& step) {
  at_.epoch_over = true;
  const Gathered& rest = gathered_;
  if (rest.rows == 0) return;
  bool delivered = false;
  deal_rest(rest, step);
  switch (options_.end) {
    case EpochEnd::drop:
      break;
    case EpochEnd::pad:
      for (Share& share : step.shares) share.padded_rows = rows_;
      delivered = true;
      break;
    case EpochEnd::wrap:
      delivered = complete(step);
      break;
    case EpochEnd::stop:
      delivered = std::all_of(step.shares.begin(), step.shares.end(),
                              [](const Share& share) { return !share.pieces.empty(); });
      break;
  }
  if (delivered || step.error) return;
  for (Share& share : step.shares) share.pieces.clear();
  lost_.fetch_add(static_cast<std::uint64_t>(rest.rows), std::memory_order_relaxed);
}

bool StepMaker::open_next_epoch() {
  if (at_.opened) return true;
  bool all = true;
  for (BatchSource* source : sources_) all = source->next_epoch() && all;
  at_.opened = all;
  return all;
}

std::vector<std::string> StepMaker::save_sources() const {
  std::vector<std::string> saved;
  for (const BatchSource* source : sources_) saved.push_back(source->save());
  return saved;
}

StepMaker::Position StepMaker::position() const {
  Position position = at_;
  position.lost = lost();
  position.wrapped = wrapped();
  position.sources = has_upcoming_ ? before_upcoming_ : save_sources();
  return position;
}

void StepMaker::go_on_at(const Position& position) {
  at_ = position;
  at_.sources.clear();
  lost_.store(position.lost, std::memory_order_relaxed);
  wrapped_.store(position.wrapped, std::memory_order_relaxed);
}

std::string StepMaker::Position::encode() const {
  StateWriter writer;
  writer.put((epoch_over ? 1U : 0U) | (opened ? 2U : 0U));
  for (const std::uint64_t number : {epoch, lost, wrapped}) writer.put(number);
  writer.put(sources.size());
  for (const std::string& source : sources) writer.put_bytes(source);
  return writer.take();
}

StepMaker::Position StepMaker::Position::decode(std::string_view bytes) {
  StateReader reader(bytes);
  Position position;
  const std::uint64_t flags = reader.get();
  position.epoch_over = (flags & 1) != 0;
  position.opened = (flags & 2) != 0;
  for (std::uint64_t* number : {&position.epoch, &position.lost, &position.wrapped})
    *number = reader.get();
  for (std::uint64_t left = reader.get(); left > 0; --left)
    position.sources.emplace_back(reader.get_bytes());
  return position;
}

void StepMaker::next(Step& step) {
  step.shares.resize(static_cast<std::size_t>(towers_));
  for (Share& share : step.shares) {
    share.pieces.clear();
    share.padded_rows = 0;
  }
  step.end = step.last = false;
  step.error.reset();
  if (!at_.epoch_over && !over_) {
    if (has_upcoming_) {
      std::swap(gathered_, upcoming_);
      has_upcoming_ = false;
    } else if (!gather(gathered_, step)) {
      over_ = true;
      return;
    }
    if (gathered_.rows == full()) {
      deal_full(gathered_, step);
      return;
    }
    finish_epoch(step);
    gathered_.pieces.clear();
    if (step.error) {
      over_ = true;
      return;
    }
    const auto has_rows = [](const Share& share) {
      return !share.pieces.empty() || share.padded_rows > 0;
    };
    if (std::any_of(step.shares.begin(), step.shares.end(), has_rows)) return;
  }
  step.end = true;
  at_.epoch_over = false;
  ++at_.epoch;
  over_ = over_ || at_.epoch >= options_.run.epochs || !open_next_epoch();
  at_.opened = false;
  step.last = over_;
}

}  // namespace penstock
