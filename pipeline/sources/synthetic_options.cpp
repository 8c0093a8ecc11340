// parse_synthetic, and the texts of distributions.
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/sources/synthetic.h"

namespace penstock {
namespace {

using Kind = Distribution::Kind;

struct KindName {
  Kind kind;
  std::string_view name;
  std::size_t least_numbers;
  std::size_t most_numbers;
};

constexpr std::array<KindName, 4> kKinds = {{{Kind::constant, "constant", 1, 1},
                                             {Kind::uniform, "uniform", 2, 2},
                                             {Kind::lognormal, "lognormal", 2, 3},
                                             {Kind::pareto, "pareto", 2, 3}}};

[[noreturn]] void reject(std::string_view part, const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "synthetic: '" + std::string(part) + "': " + what);
}

std::vector<std::string_view> split(std::string_view text, char delimiter) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(delimiter);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

template <typename T>
T number(std::string_view text, std::string_view part) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) reject(part, "expected a number");
  return value;
}

Distribution parse_distribution(std::string_view text, std::string_view part) {
  std::vector<std::string_view> words = split(text, ':');
  const KindName* kind = &kKinds[0];
  if (words.size() > 1 || words[0] == kKinds[0].name) {
    kind = nullptr;
    for (const KindName& known : kKinds) {
      if (known.name == words[0]) kind = &known;
    }
    if (kind == nullptr) {
      reject(part,
             "known are constant, uniform:low:high, lognormal:median:sigma[:most] and "
             "pareto:least:exponent[:most]");
    }
    words.erase(words.begin());
  }
  if (words.size() < kind->least_numbers || words.size() > kind->most_numbers) {
    reject(part,
           std::string(kind->name) + " takes " + std::to_string(kind->least_numbers) + " numbers");
  }
  Distribution result{.kind = kind->kind, .a = number<double>(words[0], part)};
  if (words.size() > 1) result.b = number<double>(words[1], part);
  if (words.size() > 2) result.max = number<double>(words[2], part);
  return result;
}

std::string number_text(double value) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

}  // namespace

std::string to_text(const Distribution& distribution) {
  if (distribution.kind == Kind::constant) return number_text(distribution.a);
  const KindName& kind = kKinds[static_cast<std::size_t>(distribution.kind)];
  std::string text(kind.name);
  text.append(":").append(number_text(distribution.a));
  text.append(":").append(number_text(distribution.b));
  if (distribution.max != Distribution().max)
    text.append(":").append(number_text(distribution.max));
  return text;
}

double draw(const Distribution& distribution, Rng rng) {
  double value = distribution.a;
  switch (distribution.kind) {
    case Kind::constant:
      break;
    case Kind::uniform:
      value = rng.uniform(distribution.a, distribution.b);
      break;
    case Kind::lognormal:
      value = distribution.a * std::exp(distribution.b * rng.normal());
      break;
    case Kind::pareto:
      value = distribution.a / std::pow(1.0 - rng.uniform(), 1.0 / distribution.b);
      break;
  }
  return std::max(0.0, std::min(value, distribution.max));
}

SyntheticOptions parse_synthetic(const std::string& text) {
  SyntheticOptions options;
  if (text.empty()) return options;
  for (const std::string_view part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    const std::string_view key = part.substr(0, equals);
    const std::string_view value = equals == part.npos ? "" : part.substr(equals + 1);
    if (key == "count") {
      options.count = number<std::uint64_t>(value, part);
    } else if (key == "bytes") {
      options.bytes = parse_distribution(value, part);
    } else if (key == "read_us") {
      options.read_us = parse_distribution(value, part);
    } else if (key == "cost_us") {
      options.cost_us = parse_distribution(value, part);
    } else if (key == "faults") {
      options.fault_share = number<double>(value, part);
    } else if (key == "image") {
      const std::vector<std::string_view> sides = split(value, 'x');
      if (sides.size() != 2) reject(part, "an image's size is HEIGHTxWIDTH");
      options.image_height = number<int>(sides[0], part);
      options.image_width = number<int>(sides[1], part);
    } else if (key == "seed") {
      options.seed = number<std::uint64_t>(value, part);
    } else {
      reject(part, "known are count, bytes, read_us, cost_us, faults, image and seed");
    }
  }
  (void)make_synthetic_source(options);  // checks the options
  return options;
}

}  // namespace penstock
