#include "staging/feed_state.h"

#include <array>

#include <penstock/internal/crc32c.h>
#include <penstock/state.h>

#include "staging/feed_rules.h"

namespace penstock {
namespace {

constexpr std::string_view kMagic = "feed 2\n";
constexpr std::string_view kBefore = "feed 1\n";

struct Field {
  const char* name;
  std::uint64_t value;
};

constexpr std::size_t kTowers = 3, kRows = 4;  // indices of fields

std::array<Field, 5> fields_of(const FeedShape& shape) {
  return {{{"mode", static_cast<std::uint64_t>(shape.mode)},
           {"end", static_cast<std::uint64_t>(shape.end)},
           {"in_turn", shape.in_turn ? 1U : 0U},
           {"number of towers", static_cast<std::uint64_t>(shape.towers)},
           {"rows of a tower's batch", static_cast<std::uint64_t>(shape.rows)}}};
}

std::string text_of(const Field& field, std::uint64_t value) {
  const std::string_view name = field.name;
  if (name == "mode" && value <= static_cast<std::uint64_t>(FeedMode::sharded))
    return name_of(static_cast<FeedMode>(value));
  if (name == "end" && value <= static_cast<std::uint64_t>(EpochEnd::stop))
    return name_of(static_cast<EpochEnd>(value));
  if (name == "in_turn" && value <= 1) return value == 1 ? "true" : "false";
  return std::to_string(value);
}

[[noreturn]] void damaged(const std::string& why) {
  throw Error(ErrorCode::data_loss, "a feed's state is damaged: " + why);
}

std::string checksum_of(std::string_view bytes) {
  StateWriter writer;
  writer.put(crc32c(std::as_bytes(std::span(bytes))));
  return writer.take();
}

}  // namespace

std::string encode(const FeedShape& shape, std::string_view journal) {
  StateWriter writer;
  for (const Field& field : fields_of(shape)) writer.put(field.value);
  writer.put_bytes(journal);
  std::string bytes = std::string(kMagic) + writer.bytes();
  return bytes + checksum_of(bytes);
}

/// Returns the shape with another number of towers, if towers of this shape can have the same
/// steps. For that, each step must be one batch that is divided, with the same number of rows in
/// total. The end of an epoch must not depend on the number of towers.
FeedShape with_towers(const FeedShape& shape, std::uint64_t towers, std::uint64_t rows) {
  constexpr std::uint64_t kMost = 1 << 20;
  const bool divided = shape.mode == FeedMode::split && shape.end != EpochEnd::stop;
  if (!divided || towers == 0 || towers > kMost || rows > SIZE_MAX / kMost) return shape;
  if (towers * rows != static_cast<std::uint64_t>(shape.towers * shape.rows)) return shape;
  FeedShape other = shape;
  other.towers = static_cast<int>(towers);
  other.rows = static_cast<std::int64_t>(rows);
  return other;
}

/// Converts an event to another number of towers. All of the old towers must have received it, or
/// none.
void redeal(FeedJournal::Event& event, int towers) {
  if (FeedJournal::is_within(event))
    throw Error(ErrorCode::invalid_argument,
                "some towers were given a step that others were not, so that no other number of "
                "towers can continue");
  const bool given = event.parts.front().given;
  event.parts.assign(static_cast<std::size_t>(towers), {FeedJournal::kNobody, given});
}

FeedState decode(std::string_view state, const FeedShape& shape) {
  if (state.starts_with(kBefore))
    throw Error(
        ErrorCode::invalid_argument,
        "an earlier version of Penstock saved the state of the feed, without the contents of "
        "its data");
  if (!state.starts_with(kMagic)) damaged("it begins differently");
  StateReader reader(state.substr(kMagic.size()));
  std::array<std::uint64_t, 5> values{};
  for (std::uint64_t& value : values) value = reader.get();
  const FeedShape saved_by = with_towers(shape, values[kTowers], values[kRows]);
  const std::array<Field, 5> fields = fields_of(saved_by);
  std::string differs;
  for (std::size_t i = 0; i < fields.size() && differs.empty(); ++i) {
    if (values[i] == fields[i].value) continue;
    differs = std::string("the state was saved by another feed: its ") + fields[i].name + " was " +
              text_of(fields[i], values[i]) + ", not " + text_of(fields[i], fields[i].value);
  }
  const std::string_view journal = reader.get_bytes();
  const auto end = static_cast<std::size_t>(journal.data() + journal.size() - state.data());
  if (state.substr(end) != checksum_of(state.substr(0, end))) damaged("its checksum differs");
  if (!differs.empty()) throw Error(ErrorCode::invalid_argument, differs);
  StateReader events(journal);
  FeedJournal::Saved saved = FeedJournal::read(events, saved_by.towers);
  if (saved_by.towers != shape.towers)
    for (FeedJournal::Event& event : saved.events) redeal(event, shape.towers);
  FeedState result{StepMaker::Position::decode(saved.position), std::move(saved.events),
                   saved.counts};
  const std::size_t sources =
      shape.mode == FeedMode::sharded ? static_cast<std::size_t>(shape.towers) : 1;
  if (result.position.sources.size() != sources) damaged("it has other inputs");
  return result;
}

}  // namespace penstock
