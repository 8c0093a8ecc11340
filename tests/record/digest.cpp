#include <cstdio>
#include <sstream>

#include "tests/record/observe.h"

namespace penstock::test {
namespace {

/// FNV-1a, with 64 bits.
class Digest {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) {
      sum_ ^= static_cast<unsigned char>(byte);
      sum_ *= 0x100000001b3U;
    }
  }
  /// With its length in front, so that texts can't run into each other.
  void add_text(std::string_view text) {
    add(std::to_string(text.size()) + ":");
    add(text);
  }
  std::string digits() const {
    char text[17];
    std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(sum_));
    return std::string(text).substr(0, 8);
  }

 private:
  std::uint64_t sum_ = 0xcbf29ce484222325U;
};

std::string in_one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return text;
}

}  // namespace

std::string digest_of(const Element& element) {
  Digest digest;
  for (std::size_t i = 0; i < element.size(); ++i) {
    const Tensor& tensor = element[i];
    digest.add_text(element.name(i));
    digest.add_text(name_of(tensor.dtype()));
    digest.add_text(tensor.shape().to_string());
    if (tensor.dtype() == DType::bytes) {
      for (const std::string_view text : tensor.to_vector<std::string_view>())
        digest.add_text(text);
      continue;
    }
    std::string bytes(tensor.nbytes(), '\0');
    tensor.copy_to(reinterpret_cast<std::byte*>(bytes.data()));
    digest.add_text(bytes);
  }
  const std::string rows =
      element.valid_rows < 0 ? "" : " " + std::to_string(element.valid_rows) + " rows";
  digest.add_text(rows);
  return digest.digits() + rows;
}

std::string line_of(const Error& error) {
  const Provenance& where = error.where();
  std::string text = "E " + std::string(name_of(error.code())) + ": " + error.cause() + " (" +
                     where.to_string() + ")";
  if (where.length >= 0) text += " of " + std::to_string(where.length) + " bytes";
  return in_one_line(text);
}

std::string thrown_in_one_line(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return line_of(error);
  }
  return "nothing";
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back("  " + line);
  return lines;
}

}  // namespace penstock::test
