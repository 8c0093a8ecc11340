// Text of the form "name:1:2.5", in which optimizers and schedules are written.
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

/// Parses such text. Throws Error{invalid_argument}, which names `what`, for a part that is not a
/// finite number.
NamedNumbers parse_named_numbers(const std::string& text, const std::string& what);

/// Return the shortest text that reads back as the same number.
std::string exact_text(double value);
std::string exact_text(float value);

}  // namespace penstock::towers
