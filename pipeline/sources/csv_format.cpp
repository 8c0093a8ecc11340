#include "pipeline/sources/csv_format.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <type_traits>

#include <penstock/error.h>

namespace penstock {
namespace {

class CsvScanner final : public RecordScanner {
 public:
  explicit CsvScanner(char delimiter) : delimiter_(delimiter) {}

  std::size_t next_end(std::string_view text, std::size_t at) override {
    if (state_ == State::quoted || state_ == State::quote_seen) return step(text, at);
    // A line without a quote is a record. Most lines are.
    const std::size_t newline = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, newline - at);
    if (line.find('"') != std::string_view::npos) return step(text, at);
    if (newline < text.size()) {
      state_ = State::field_start;
      return newline + 1;
    }
    if (!line.empty()) {
      state_ = line.back() == delimiter_ ? State::field_start : State::unquoted;
    }
    return std::string_view::npos;
  }

 private:
  enum class State { field_start, unquoted, quoted, quote_seen };

  std::size_t step(std::string_view text, std::size_t at) {
    for (; at < text.size(); ++at) {
      const char c = text[at];
      if (state_ == State::quoted) {
        if (c == '"') state_ = State::quote_seen;
      } else if (c == '\n') {
        state_ = State::field_start;
        return at + 1;
      } else if (c == delimiter_) {
        state_ = State::field_start;
      } else if (c == '"' && state_ != State::unquoted) {
        state_ = State::quoted;  // opens the field, or was the first of a pair
      } else {
        state_ = State::unquoted;
      }
    }
    return std::string_view::npos;
  }

  char delimiter_;
  State state_ = State::field_start;
};

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view kSpaces = " \t\r";
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

template <typename T>
struct Wider;
template <>
struct Wider<float> {
  using type = double;
};
template <>
struct Wider<double> {
  using type = long double;
};

// Parses all of `text` as a number. A number that is too small for T is 0.
template <typename T>
std::errc parse_to(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (stop != end) return std::errc::invalid_argument;
  if constexpr (std::is_floating_point_v<T>) {
    typename Wider<T>::type wide{};
    if (error == std::errc::result_out_of_range &&
        std::from_chars(text.data(), end, wide).ec == std::errc() && wide > -1 && wide < 1) {
      value = static_cast<T>(wide);
      return {};
    }
  }
  return error;
}

template <typename T>
Tensor parse_as(std::string_view text) {
  std::string_view number = trimmed(text);
  if (number.size() > 1 && number[0] == '+' && number[1] != '-') number.remove_prefix(1);
  T value{};
  const std::errc error = parse_to(number, value);
  if (error == std::errc()) return Tensor::scalar(value);
  throw Error(ErrorCode::data_loss,
              "'" + std::string(text.substr(0, 40)) + "' is no " +
                  std::string(name_of(dtype_of<T>)) +
                  (error == std::errc::result_out_of_range ? ": out of its range" : ""));
}

}  // namespace

std::unique_ptr<RecordScanner> make_csv_scanner(char delimiter) {
  return std::make_unique<CsvScanner>(delimiter);
}

std::string split_csv(std::string_view record, char delimiter, std::vector<CsvField>& fields) {
  fields.clear();
  std::size_t at = 0;
  while (true) {
    if (at < record.size() && record[at] == '"') {
      const std::size_t begin = ++at;
      bool escaped = false;
      while (true) {
        at = record.find('"', at);
        if (at == std::string_view::npos) return "a quote that is never closed";
        if (at + 1 == record.size() || record[at + 1] != '"') break;
        escaped = true;
        at += 2;
      }
      fields.push_back({record.substr(begin, at - begin), escaped});
      if (++at < record.size() && record[at] != delimiter) return "text behind a closing quote";
    } else {
      const std::size_t begin = at;
      at = std::min(record.find(delimiter, at), record.size());
      const std::string_view text = record.substr(begin, at - begin);
      if (text.find('"') != std::string_view::npos) return "a quote within an unquoted field";
      fields.push_back({text, false});
    }
    if (at == record.size()) return {};
    ++at;
  }
}

std::size_t unescape_csv(std::string_view text, char* out) noexcept {
  std::size_t written = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    out[written++] = text[i];
    if (text[i] == '"') ++i;
  }
  return written;
}

Tensor parse_number(std::string_view text, DType dtype) {
  switch (dtype) {
    case DType::i64:
      return parse_as<std::int64_t>(text);
    case DType::f32:
      return parse_as<float>(text);
    case DType::f64:
      return parse_as<double>(text);
    default:
      throw Error(ErrorCode::invalid_argument, "a number of dtype " + std::string(name_of(dtype)));
  }
}

}  // namespace penstock
