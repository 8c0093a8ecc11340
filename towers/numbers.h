// "name:1:2.5", as optimizers and schedules are written.
#pragma once

#include <string>
#include <vector>

namespace penstock::towers {

struct NamedNumbers {
  std::string name;
  std::vector<double> numbers;

  double at(std::size_t i, double otherwise) const {
    return i < numbers.size() ? numbers[i] : otherwise;
  }
};

/// Throws Error{invalid_argument} naming `what` for a part that is no finite number.
NamedNumbers parse_named_numbers(const std::string& text, const std::string& what);

}  // namespace penstock::towers
