// The saved position of a feed, as bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <penstock/feed.h>

#include "staging/journal.h"
#include "staging/steps.h"

namespace penstock {

/// The position that a feed resumes from.
struct FeedState {
  StepMaker::Position position{};
  /// The events after that position of which any tower had a part.
  std::vector<FeedJournal::Event> events{};
  FeedJournal::Counts counts{};
};

/// The properties of a feed that must be the same when it is saved and when it resumes.
struct FeedShape {
  FeedMode mode = FeedMode::per_tower;
  EpochEnd end = EpochEnd::drop;
  bool in_turn = true;
  int towers = 0;
  std::int64_t rows = 0;
};

/// Returns the state as bytes. `journal`: the bytes that FeedJournal::save wrote.
std::string encode(const FeedShape& shape, std::string_view journal);
/// Reads a state. The number of towers may differ if the towers divide batches of the same number
/// of rows, unless the end of an epoch depends on their number. Throws Error{invalid_argument}
/// naming the difference, or Error{data_loss} if the bytes are not a valid state.
FeedState decode(std::string_view state, const FeedShape& shape);

}  // namespace penstock
