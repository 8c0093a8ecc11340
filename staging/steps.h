// What each tower gets at each step.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/feed.h>
#include <penstock/staging_area.h>

#include "staging/source.h"

namespace penstock {

/// One tower's part of a step.
struct Share {
  std::vector<Piece> pieces;
  std::int64_t padded_rows = 0;  ///< rows of the batch if more than the pieces have
};

/// One step of all towers, or what stands in its place.
struct Step {
  std::vector<Share> shares;
  bool end = false;   ///< of an epoch; then no shares
  bool last = false;  ///< … of the last one
  std::optional<Error> error;
};

/// Turns batches into steps, and decides what happens at the end of an epoch. Not synchronised but
/// for its counts.
class StepMaker {
 public:
  /// `rows`: of one tower's full batch. One source, or for FeedMode::sharded one for each tower.
  /// For EpochEnd::wrap sources have one epoch more than `epochs`. `drop_remainder`: of the sources
  /// together, as of a single one that drops what makes no batch.
  StepMaker(std::vector<BatchSource*> sources, const FeedOptions& options, int towers,
            std::int64_t rows, bool drop_remainder = false);

  /// The next step, made in `step`, whose memory is used again.
  void next(Step& step);

  /// Between two steps.
  struct Position {
    bool epoch_over = false;  ///< its end is the next step
    bool opened = false;      ///< the next epoch
    std::uint64_t epoch = 0;
    std::uint64_t lost = 0;
    std::uint64_t wrapped = 0;
    std::vector<std::string> sources;  ///< BatchSource::save of each

    std::string encode() const;
    /// Throws Error{data_loss}.
    static Position decode(std::string_view bytes);
  };
  /// Throws what BatchSource::save does.
  Position position() const;
  /// REQUIRES: no step was made, and the sources stand where the position says.
  void go_on_at(const Position& position);
  /// The graph has no position.
  void never_save() noexcept { saves_ = false; }
  bool over() const noexcept { return over_; }
  /// Of epochs, made in this run and those before.
  std::uint64_t ends() const noexcept { return at_.epoch; }

  std::uint64_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }
  std::uint64_t wrapped() const noexcept { return wrapped_.load(std::memory_order_relaxed); }

 private:
  /// Batches of one step, as the sources gave them: of tower i at i for sharded, else in order.
  struct Gathered {
    std::vector<Piece> pieces;
    std::int64_t rows = 0;
  };
  /// Pulls what a full step takes, or what is left. False: an error, now in `step`.
  bool gather(Gathered& into, Step& step);
  void drop_remainder(Gathered& from) const;
  void deal_full(Gathered& from, Step& step) const;
  void deal_rest(const Gathered& from, Step& step) const;
  bool complete(Step& step);
  void finish_epoch(Step& step);
  bool open_next_epoch();
  std::vector<std::string> save_sources() const;
  std::int64_t full() const noexcept { return rows_ * towers_; }
  bool sharded() const noexcept { return options_.mode == FeedMode::sharded; }

  const std::vector<BatchSource*> sources_;
  const FeedOptions& options_;
  const std::int64_t towers_;
  const std::int64_t rows_;
  const bool drop_remainder_;
  Gathered gathered_;
  Gathered upcoming_;  // the next epoch's first step, if it was looked at
  bool has_upcoming_ = false;
  bool over_ = false;  // not of the position: a run that goes on may have more epochs
  bool saves_ = true;
  std::vector<std::string> before_upcoming_;  // the sources' positions
  Position at_;                               // without what is kept elsewhere
  std::atomic<std::uint64_t> lost_{0};
  std::atomic<std::uint64_t> wrapped_{0};
};

}  // namespace penstock
