#include "staging/step_position.h"

#include <penstock/state.h>

namespace penstock {

std::string StepPosition::encode() const {
  StateWriter writer;
  writer.put((epoch_over ? 1U : 0U) | (opened ? 2U : 0U));
  for (const std::uint64_t number : {epoch, lost, wrapped}) writer.put(number);
  writer.put(sources.size());
  for (const std::string& source : sources) writer.put_bytes(source);
  return writer.take();
}

StepPosition StepPosition::decode(std::string_view bytes) {
  StateReader reader(bytes);
  StepPosition position;
  const std::uint64_t flags = reader.get();
  position.epoch_over = (flags & 1) != 0;
  position.opened = (flags & 2) != 0;
  for (std::uint64_t* number : {&position.epoch, &position.lost, &position.wrapped})
    *number = reader.get();
  for (std::uint64_t left = reader.get(); left > 0; --left)
    position.sources.emplace_back(reader.get_bytes());
  return position;
}

}  // namespace penstock
