#include "pipeline/sources/csv_format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
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

/// True if the amount of a decimal number is below 1. REQUIRES: from_chars takes all of it.
bool is_below_one(std::string_view number) noexcept {
  const std::size_t e = std::min(number.find_first_of("eE"), number.size());
  const std::string_view digits = number.substr(0, e);
  const std::size_t point = std::min(digits.find('.'), digits.size());
  const std::size_t first = std::min(digits.find_first_of("123456789"), digits.size());
  // The exponent of the first digit that is not 0, without the written exponent.
  const std::int64_t own =
      static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first) - (first < point ? 1 : 0);
  if (e == number.size()) return own < 0;
  std::string_view exponent = number.substr(e + 1);
  const bool negative = exponent.starts_with('-');
  if (negative || exponent.starts_with('+')) exponent.remove_prefix(1);
  std::int64_t written = 0;
  const auto [stop, error] =
      std::from_chars(exponent.data(), exponent.data() + exponent.size(), written);
  // Far beyond the number of digits, all exponents are alike.
  constexpr std::int64_t kMost = 1'000'000'000'000;
  if (error != std::errc()) written = kMost;
  written = std::min(written, kMost);
  return (negative ? -written : written) + own < 0;
}

// Parses all of `text` as a number. A number that is too small for T is 0.
template <typename T>
std::errc parse_to(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (stop != end) return std::errc::invalid_argument;
  if constexpr (std::is_floating_point_v<T>) {
    if (error == std::errc::result_out_of_range && is_below_one(text)) {
      value = text.starts_with('-') ? -T{0} : T{0};
      return {};
    }
  }
  // Many processors compute slowly with f32 below the least of full precision, or take it for 0.
  if constexpr (std::is_same_v<T, float>) {
    if (std::abs(value) < std::numeric_limits<float>::min()) value = std::copysign(0.0F, value);
  }
  return error;
}

template <typename T>
Tensor parse_as(std::string_view text) {
  std::string_view number = trimmed_number(text);
  if (number.size() > 1 && number[0] == '+' && number[1] != '-') number.remove_prefix(1);
  T value{};
  const std::errc error = parse_to(number, value);
  if (error == std::errc()) return Tensor::scalar(value);
  throw Error(ErrorCode::data_loss,
              "'" + std::string(text.substr(0, 40)) + "' is not a valid " +
                  std::string(name_of(dtype_of<T>)) +
                  (error == std::errc::result_out_of_range ? ": out of its range" : ""));
}

}  // namespace

std::unique_ptr<RecordScanner> make_csv_scanner(char delimiter) {
  return std::make_unique<CsvScanner>(delimiter);
}

std::string_view without_csv_end(std::string_view record) noexcept {
  if (record.ends_with('\n')) record.remove_suffix(1);
  while (record.ends_with('\r')) record.remove_suffix(1);
  return record;
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

std::string_view trimmed_number(std::string_view text) noexcept {
  constexpr std::string_view kSpaces = " \t\r";
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
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
