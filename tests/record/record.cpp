#include "tests/record/record.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "tests/support/places.h"

namespace penstock::test {
namespace {

constexpr std::size_t kMostShown = 60;  // lines of a difference

std::string digits_of(const std::string& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

std::string bytes_of(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return bytes;
}

}  // namespace

std::string record_path() {
  return source_dir() + "/tests/record/record.txt";
}

Record read_record(const std::string& path) {
  Record record;
  std::ifstream in(path);
  if (!in) return record;
  Entry* entry = nullptr;
  bool running = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("== ")) {
      entry = &record[line.substr(3)];
      running = false;
    } else if (entry == nullptr) {
      continue;  // what stands in front
    } else if (line == "run:") {
      running = true;
    } else if (line.starts_with("state at ")) {
      const std::size_t colon = line.find(':');
      entry->states[std::stoul(line.substr(9, colon - 9))] = bytes_of(line.substr(colon + 2));
    } else if (running) {
      entry->run.push_back(line.substr(2));
    } else {
      entry->about.push_back(line);
    }
  }
  return record;
}

std::vector<std::string> lines_of(const Entry& entry) {
  std::vector<std::string> lines = entry.about;
  lines.emplace_back("run:");
  for (const std::string& line : entry.run) lines.push_back("  " + line);
  return lines;
}

std::string text_of(const Record& record) {
  std::string text =
      "What the graphs of tests/record give. Written by record_record_test with "
      "PENSTOCK_WRITE_RECORD=1, which keeps the states that are there: look at the difference "
      "before it is committed.\n";
  for (const auto& [name, entry] : record) {
    text += "== " + name + "\n";
    for (const std::string& line : lines_of(entry)) text += line + "\n";
    for (const auto& [position, state] : entry.states)
      text += "state at " + std::to_string(position) + ": " + digits_of(state) + "\n";
  }
  return text;
}

std::string difference(const std::vector<std::string>& recorded,
                       const std::vector<std::string>& now) {
  // Lines of the longest common part, by dynamic programming: entries are short.
  const std::size_t rows = recorded.size() + 1;
  const std::size_t columns = now.size() + 1;
  std::vector<std::size_t> common(rows * columns, 0);
  for (std::size_t i = rows - 1; i-- > 0;) {
    for (std::size_t j = columns - 1; j-- > 0;) {
      common[i * columns + j] = recorded[i] == now[j] ? common[(i + 1) * columns + j + 1] + 1
                                                      : std::max(common[(i + 1) * columns + j],
                                                                 common[i * columns + j + 1]);
    }
  }
  std::string text;
  std::size_t shown = 0;
  const auto show = [&](char mark, const std::string& line) {
    if (++shown <= kMostShown) text += std::string(1, mark) + " " + line + "\n";
  };
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < recorded.size() || j < now.size()) {
    if (i < recorded.size() && j < now.size() && recorded[i] == now[j]) {
      ++i;
      ++j;
    } else if (j == now.size() || (i < recorded.size() &&
                                   common[(i + 1) * columns + j] >= common[i * columns + j + 1])) {
      show('-', recorded[i++]);
    } else {
      show('+', now[j++]);
    }
  }
  if (shown > kMostShown) text += "and " + std::to_string(shown - kMostShown) + " more lines\n";
  return text;
}

}  // namespace penstock::test
