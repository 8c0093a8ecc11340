#include "pipeline/stages/adds.h"

namespace penstock {
namespace {

[[noreturn]] void refuse(const MapOptions& options, const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "map '" + options.name + "': " + what);
}

}  // namespace

void require_resolved(const MapOptions& options) {
  if (!options.adds.empty() && !options.output)
    refuse(options, "adds needs the input's spec: call resolve_adds first, or Dataset::map");
}

void refuse_adds(const MapOptions& options) {
  if (!options.adds.empty())
    refuse(options, "it writes all that comes out into views, so say output rather than adds");
}

MapOptions resolve_adds(MapOptions options, const Spec& input) {
  if (options.adds.empty()) return options;
  if (options.output) refuse(options, "say either adds or output, not both");
  Spec output = input;
  for (std::size_t i = 0; i < options.adds.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (options.adds[i].name == options.adds[j].name)
        refuse(options, "adds names '" + options.adds[i].name + "' twice");
    }
    output = output.with(options.adds[i]);
  }
  options.output = std::move(output);
  return options;
}

std::string added_component(const MapOptions& options, std::optional<DType> returns) {
  const std::string what = returns ? std::string(name_of(*returns)) : "a tensor";
  if (options.adds.size() != 1) {
    refuse(options, "the callable returns " + what + " rather than an element, so that it adds " +
                        "one component: say which, {.adds = {{\"name\", DType::" +
                        (returns ? what : "f32") + "}}}");
  }
  const ComponentSpec& added = options.adds.front();
  if (!returns || (added.dtype == *returns && added.shape.accepts(Shape()))) return added.name;
  refuse(options, "the callable returns " + what + ", and adds says that " + added.name + " is " +
                      std::string(name_of(added.dtype)) + " " + added.shape.to_string());
}

}  // namespace penstock
