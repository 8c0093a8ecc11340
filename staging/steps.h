// The parts of each step that the towers get.
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
#include "staging/step_position.h"

namespace penstock {

/// The part of a step that one tower gets.
struct Share {
  std::vector<Piece> pieces;
  std::int64_t padded_rows = 0;  ///< rows of the batch, if more than the pieces have
};

/// One step of all towers, or an event in its place: an error or the end of an epoch.
struct Step {
  std::vector<Share> shares;
  bool end = false;      ///< the end of an epoch; then there are no shares
  bool last = false;     ///< this end is the one of the last epoch
  bool stopped = false;  ///< the run gave up: nothing follows, and no epoch has ended
  std::optional<Error> error;
  std::uint64_t pulls = 0;  ///< the number of pulls that returned a batch or an end in this call
};

/// The properties of the batches that steps are made of.
struct StepRules {
  std::int64_t rows = 1;  ///< of one tower's full batch; 0: they vary
  /// Every batch of an epoch except the last is full, so that the rows left over can be dealt one
  /// by one. Otherwise a step is N batches, unchanged.
  bool full_but_last = true;
  /// Rows of different batches can be joined to one batch.
  bool joinable = true;
  bool divisible = true;  ///< each component has as many rows as the batch
  /// All batches have the same number of rows, the last of which may be padding.
  bool padded = false;
  bool kept = false;  ///< the sources may return the same memory again
  /// Drop the incomplete batch of all sources together, as one source would that drops its
  /// remainder.
  bool drop_remainder = false;
};

/// Turns batches into steps, and decides what happens at the end of an epoch. An error of a source
/// stands between two steps, and neither of them loses anything by it. Not synchronised except for
/// its counts.
class StepMaker {
 public:
  /// `sources`: one, or one for each tower with FeedMode::sharded. With EpochEnd::wrap, sources
  /// have one epoch more than `epochs`.
  StepMaker(std::vector<BatchSource*> sources, const FeedOptions& options, int towers,
            StepRules rules);

  static constexpr std::uint64_t kNone = UINT64_MAX;
  /// Makes the next step in `step`, whose memory it reuses. `fails_at`: after this many pulls, an
  /// earlier run got an error. The result of the pull there is left out again.
  void next(Step& step, std::uint64_t fails_at = kNone);

  using Position = StepPosition;
  /// False while batches are held that are in no step yet.
  bool has_position() const noexcept;
  /// Returns the position. Throws the errors of BatchSource::save. REQUIRES: has_position().
  Position position() const;
  /// Resumes at a position. REQUIRES: no step was made, and the sources stand where the position
  /// says.
  void resume_at(const Position& position);
  /// Says that the graph has no position that can be saved.
  void never_save() noexcept { saves_ = false; }
  bool over() const noexcept { return over_; }
  /// The number of epochs that ended, in this run and those before.
  std::uint64_t ends() const noexcept { return at_.epoch; }

  std::uint64_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }
  std::uint64_t wrapped() const noexcept { return wrapped_.load(std::memory_order_relaxed); }

 private:
  /// Batches for one step, as the sources gave them: with FeedMode::sharded those of tower i at
  /// index i, else in order.
  struct Gathered {
    std::vector<Piece> pieces;
    std::int64_t rows = 0;
    std::size_t batches = 0;  // the number of pieces that hold a batch
    bool complete = false;    // no more is to be pulled for it
    void clear();
  };
  /// A result that was pulled from a source in advance.
  struct Ahead {
    std::optional<Element> batch{};
    bool ended = false;  // for this epoch
  };

  // After an error, each of these resumes where it stopped when it is called again. Each returns
  // false if there was an error, which is then in `step`.
  bool pull(std::size_t source, std::optional<Element>& batch, Step& step);
  bool gather(Gathered& into, Step& step);
  /// Pulls one batch of each source in advance. Only this tells whether a short batch is the last
  /// one.
  bool look_ahead(Step& step);
  /// Adds one more batch of each shard that still has one.
  bool refill_spread(Step& step);
  bool complete_rest(const Gathered& rest, Step& step);

  bool make_step(Step& step);
  bool make_from_spread(Step& step);
  /// True if a step could be made of the remaining rows, or if an event stands in its place.
  bool end_epoch(Gathered& rest, Step& step);
  bool deal_whole(Step& step);
  bool deal_divided(Step& step);
  /// Deals a batch that is to be divided, is not full and is not the last one. False if it is left
  /// out.
  bool deal_short(Step& step);
  void deal_rest(const Gathered& rest, Step& step) const;
  void drop_remainder(Gathered& rest) const;
  void pad(Step& step) const;
  void lose(const Gathered& rest, Step& step);
  static bool every_tower_has_rows(const Step& step);
  bool open_next_epoch();
  bool all_ended() const noexcept;
  Piece piece_of(Element batch) const;
  std::vector<std::string> save_sources() const;
  std::int64_t full() const noexcept { return rules_.rows * towers_; }
  bool sharded() const noexcept { return options_.mode == FeedMode::sharded; }
  bool divided() const noexcept { return options_.mode == FeedMode::split; }

  const std::vector<BatchSource*> sources_;
  const FeedOptions& options_;
  const std::int64_t towers_;
  const StepRules rules_;
  std::vector<Ahead> ahead_;  // of each source
  Gathered gathered_;
  // Used when some shards end sooner than others: holds what the other shards still have, for any
  // tower.
  bool spreading_ = false;
  Gathered spread_;
  std::size_t asked_ = 0;  // the number of shards pulled from in this round
  bool ending_ = false;    // the epoch is ending: its remaining rows are being dealt
  Gathered upcoming_;      // the next epoch's first step, if it was made in advance
  std::uint64_t fails_at_ = kNone;
  bool over_ = false;  // not part of the position: a run that resumes may have more epochs
  bool saves_ = true;
  std::vector<std::string> before_upcoming_;  // the sources' positions
  Position at_;                               // without the values that are kept elsewhere
  std::atomic<std::uint64_t> lost_{0};
  std::atomic<std::uint64_t> wrapped_{0};
};

}  // namespace penstock
