// A feed's saved position, as bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <penstock/feed.h>

#include "staging/journal.h"
#include "staging/steps.h"

namespace penstock {

struct FeedState {
  StepMaker::Position position{};
  std::vector<FeedJournal::Event> events{};  ///< from there on, as far as towers had any part
  FeedJournal::Counts counts{};
};

/// What must not change between two runs of a feed.
struct FeedShape {
  FeedMode mode = FeedMode::per_tower;
  EpochEnd end = EpochEnd::drop;
  bool in_turn = true;
  int towers = 0;
  std::int64_t rows = 0;
};

/// `journal`: what FeedJournal::save wrote.
std::string encode(const FeedShape& shape, std::string_view journal);
/// Throws Error{invalid_argument} naming what differs, Error{data_loss} for anything that is no
/// state.
FeedState decode(std::string_view state, const FeedShape& shape);

}  // namespace penstock
