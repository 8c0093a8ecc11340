#include "cluster/environment.h"

#include <charconv>

#include <unistd.h>

#include <penstock/error.h>

namespace penstock::cluster {
namespace {

template <typename Number>
std::optional<Number> parsed(const std::string* text, std::string_view name, Number least) {
  if (text == nullptr) return std::nullopt;
  Number value = 0;
  const char* end = text->data() + text->size();
  const auto [rest, wrong] = std::from_chars(text->data(), end, value);
  if (wrong != std::errc() || rest != end || value < least)
    throw Error(ErrorCode::invalid_argument, std::string(name) + "=" + *text +
                                                 " must be an integer of at least " +
                                                 std::to_string(least));
  return value;
}

}  // namespace

Environment Environment::of_process() {
  Map variables;
  for (char** variable = ::environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return Environment(std::move(variables));
}

const std::string* Environment::find(std::string_view name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() || found->second.empty() ? nullptr : &found->second;
}

std::optional<int> Environment::number(std::string_view name, int least) const {
  return parsed<int>(find(name), name, least);
}

std::optional<std::uint64_t> Environment::large_number(std::string_view name) const {
  return parsed<std::uint64_t>(find(name), name, 0);
}

}  // namespace penstock::cluster
