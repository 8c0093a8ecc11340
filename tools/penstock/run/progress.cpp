#include "tools/penstock/run/progress.h"

#include <array>

#include <penstock/error.h>
#include <penstock/state.h>

namespace penstock::tool {
namespace {

constexpr std::string_view kMagic = "profile 1\n";
constexpr std::string_view kForeign = "penstock state ";

template <typename P>
auto numbers_of(P& progress) {
  return std::array{&progress.seed,     &progress.epoch,  &progress.batch,    &progress.batches,
                    &progress.elements, &progress.digest, &progress.log_bytes};
}

}  // namespace

void save_progress(StateFile& file, const Progress& progress) {
  StateWriter writer;
  for (const std::uint64_t* number : numbers_of(progress)) writer.put(*number);
  writer.put_bytes(progress.iterator);
  file.save(std::string(kMagic) + writer.bytes());
}

std::optional<Progress> load_progress(const std::string& path) {
  const std::optional<std::string> state = load_state(path);
  if (!state) return std::nullopt;
  if (state->starts_with(kForeign)) return Progress{.iterator = *state, .foreign = true};
  try {
    if (!state->starts_with(kMagic))
      throw Error(ErrorCode::data_loss, "not a state of penstock profile");
    StateReader reader(std::string_view(*state).substr(kMagic.size()));
    Progress progress;
    for (std::uint64_t* number : numbers_of(progress)) *number = reader.get();
    progress.iterator = reader.get_bytes();
    return progress;
  } catch (const Error& error) {
    throw Error(error.code(), error.cause(), {.shard = path});
  }
}

}  // namespace penstock::tool
