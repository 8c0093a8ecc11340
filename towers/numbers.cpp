#include "towers/numbers.h"

#include <array>
#include <charconv>
#include <cmath>

#include <penstock/error.h>

namespace penstock::towers {
namespace {

template <typename T>
std::string shortest(T value) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::string(text.data(), end) : std::string();
}

}  // namespace

NamedNumbers parse_named_numbers(const std::string& text, const std::string& what) {
  NamedNumbers parsed;
  std::size_t at = text.find(':');
  parsed.name = text.substr(0, at);
  while (at != std::string::npos) {
    const std::size_t end = text.find(':', at + 1);
    const std::string part = text.substr(at + 1, end == std::string::npos ? end : end - at - 1);
    double value = 0;
    const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || stop != part.data() + part.size() || !std::isfinite(value))
      throw Error(ErrorCode::invalid_argument,
                  what + " " + text + ": \"" + part + "\" is not a number");
    parsed.numbers.push_back(value);
    at = end;
  }
  return parsed;
}

std::string exact_text(double value) {
  return shortest(value);
}
std::string exact_text(float value) {
  return shortest(value);
}

}  // namespace penstock::towers
