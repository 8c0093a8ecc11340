#include "staging/feed_state.h"

#include <array>

#include <penstock/crc32c.h>
#include <penstock/state.h>

namespace penstock {
namespace {

constexpr std::string_view kMagic = "feed 1\n";

struct Field {
  const char* name;
  std::uint64_t value;
};

std::array<Field, 5> fields_of(const FeedShape& shape) {
  return {{{"mode", static_cast<std::uint64_t>(shape.mode)},
           {"end", static_cast<std::uint64_t>(shape.end)},
           {"in_turn", shape.in_turn ? 1U : 0U},
           {"number of towers", static_cast<std::uint64_t>(shape.towers)},
           {"rows of a tower's batch", static_cast<std::uint64_t>(shape.rows)}}};
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

FeedState decode(std::string_view state, const FeedShape& shape) {
  if (!state.starts_with(kMagic)) damaged("it begins differently");
  StateReader reader(state.substr(kMagic.size()));
  std::string differs;
  for (const Field& field : fields_of(shape)) {
    const std::uint64_t was = reader.get();
    if (was == field.value || !differs.empty()) continue;
    differs = std::string("the state was saved by another feed: its ") + field.name + " was " +
              std::to_string(was) + ", not " + std::to_string(field.value);
  }
  const std::string_view journal = reader.get_bytes();
  const auto end = static_cast<std::size_t>(journal.data() + journal.size() - state.data());
  if (state.substr(end) != checksum_of(state.substr(0, end))) damaged("its checksum differs");
  if (!differs.empty()) throw Error(ErrorCode::invalid_argument, differs);
  StateReader events(journal);
  FeedJournal::Saved saved = FeedJournal::read(events, shape.towers);
  FeedState result{StepMaker::Position::decode(saved.position), std::move(saved.events),
                   saved.counts};
  const std::size_t sources =
      shape.mode == FeedMode::sharded ? static_cast<std::size_t>(shape.towers) : 1;
  if (result.position.sources.size() != sources) damaged("it has other inputs");
  return result;
}

}  // namespace penstock
