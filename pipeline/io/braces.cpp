// Brace expansion, as in bash (Bash Reference Manual, "Brace Expansion").
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/internal/find_files.h>

#include "pipeline/io/url.h"

namespace penstock {
namespace {

using Words = std::vector<std::string>;

constexpr std::size_t kMostWords = 1'000'000;
constexpr std::size_t kMostBytes = 1 << 30;
constexpr std::size_t kMostCopied = 8 * kMostBytes;
constexpr std::size_t kLongestText = 1 << 20;
constexpr int kDeepest = 100;

/// Returns a whole number with an optional sign.
std::optional<std::int64_t> number_in(std::string_view text) noexcept {
  if (text.starts_with('+')) text.remove_prefix(text.substr(1).starts_with('-') ? 0 : 1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

bool has_leading_zero(std::string_view number) noexcept {
  const std::size_t digits = number.find_first_not_of("+-");
  return digits != number.npos && digits + 1 < number.size() && number[digits] == '0';
}

bool is_letter(std::string_view text) noexcept {
  return text.size() == 1 &&
         ((text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z'));
}

/// Returns a number with at least `width` characters.
std::string padded(std::int64_t number, std::size_t width) {
  std::string text = std::to_string(number);
  if (text.size() < width) text.insert(number < 0 ? 1 : 0, width - text.size(), '0');
  return text;
}

class Braces {
 public:
  explicit Braces(const std::string& text) : text_(text), close_(text.size(), text.npos) {
    if (text.size() > kLongestText)
      throw Error(ErrorCode::out_of_range, "a pattern with braces has " +
                                               std::to_string(text.size()) +
                                               " bytes, more than the " +
                                               std::to_string(kLongestText) + " that it may have");
    // In a URL, the query is no part of the name.
    const std::size_t end =
        http::is_http(text) ? std::min(text.find('?'), text.size()) : text.size();
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < end; ++i) {
      if (text[i] == '{') open.push_back(i);
      if (text[i] != '}' || open.empty()) continue;
      close_[open.back()] = i;
      open.pop_back();
    }
  }

  Words words() { return words(0, text_.size(), 0); }

 private:
  [[noreturn]] void refuse(const char* why) const {
    constexpr std::size_t kMostShown = 200;
    const bool whole = text_.size() <= kMostShown;
    throw Error(ErrorCode::out_of_range, why,
                {.shard = whole ? text_ : text_.substr(0, kMostShown) + "…"});
  }
  void check(std::size_t words) const {
    if (words > kMostWords || words > kMostBytes / std::max<std::size_t>(text_.size(), 1))
      refuse("its braces expand to too many names");
  }
  /// Counts words that are made, many of which may be parts of others.
  void make(std::size_t words) {
    check(words);
    copied_ += words * text_.size();
    if (copied_ > kMostCopied) refuse("its braces take too long to expand");
  }

  /// Returns what the text from `begin` to `end` stands for.
  Words words(std::size_t begin, std::size_t end, int depth) {
    if (depth > kDeepest) refuse("its braces are nested too deeply");
    Words done{std::string()};
    std::size_t at = begin;
    for (std::size_t i = begin; i < end; ++i) {
      if (close_[i] == text_.npos) continue;
      const Words choices = choices_of(i + 1, close_[i], depth);
      make(done.size() * choices.size());
      Words longer;
      longer.reserve(done.size() * choices.size());
      for (const std::string& word : done)
        for (const std::string& choice : choices)
          longer.push_back(word + text_.substr(at, i - at) + choice);
      done = std::move(longer);
      i = close_[i];
      at = i + 1;
    }
    for (std::string& word : done) word.append(text_, at, end - at);
    return done;
  }

  /// Returns the choices between two braces.
  Words choices_of(std::size_t begin, std::size_t end, int depth) {
    Words choices;
    std::size_t from = begin;
    bool list = false;
    const auto add = [&](std::size_t to) {
      for (std::string& word : words(from, to, depth + 1)) choices.push_back(std::move(word));
      check(choices.size());
      from = to + 1;
    };
    for (std::size_t i = begin; i < end; ++i) {
      if (close_[i] != text_.npos) i = close_[i];
      if (text_[i] != ',') continue;
      list = true;
      add(i);
    }
    if (list) {
      add(end);
      return choices;
    }
    choices = range_of(std::string_view(text_).substr(begin, end - begin));
    if (!choices.empty()) return choices;
    for (const std::string& word : words(begin, end, depth + 1))
      choices.push_back('{' + word + '}');
    return choices;
  }

  /// Returns the members of "1..9" or "a..e", with a step as in "1..9..2"; nothing for other text.
  Words range_of(std::string_view text) const {
    const std::size_t dots = text.find("..");
    if (dots == text.npos) return {};
    const std::string_view from = text.substr(0, dots);
    std::string_view to = text.substr(dots + 2);
    std::uint64_t step = 1;
    if (const std::size_t more = to.find(".."); more != to.npos) {
      const std::optional<std::int64_t> given = number_in(to.substr(more + 2));
      if (!given) return {};
      const auto bits = static_cast<std::uint64_t>(*given);
      step = std::max<std::uint64_t>(*given < 0 ? 0 - bits : bits, 1);
      to = to.substr(0, more);
    }
    const bool letters = is_letter(from) && is_letter(to);
    const std::optional<std::int64_t> first = letters ? from[0] : number_in(from);
    const std::optional<std::int64_t> last = letters ? to[0] : number_in(to);
    if (!first || !last) return {};
    const bool padding = has_leading_zero(from) || has_leading_zero(to);
    const std::size_t width = padding ? std::max(from.size(), to.size()) : 0;
    const bool down = *last < *first;
    const std::uint64_t distance = static_cast<std::uint64_t>(down ? *first : *last) -
                                   static_cast<std::uint64_t>(down ? *last : *first);
    const std::uint64_t steps = distance / step;
    check(steps < kMostWords ? steps + 1 : kMostWords + 1);
    Words members;
    for (std::uint64_t i = 0; i <= steps; ++i) {
      const std::uint64_t by = i * step;
      const auto value =
          static_cast<std::int64_t>(static_cast<std::uint64_t>(*first) + (down ? 0 - by : by));
      members.push_back(letters ? std::string(1, static_cast<char>(value)) : padded(value, width));
    }
    return members;
  }

  const std::string& text_;
  std::vector<std::size_t> close_;  // where the brace at each position is closed; npos: nowhere
  std::size_t copied_ = 0;
};

}  // namespace

std::vector<std::string> expand_braces(const std::string& pattern) {
  if (pattern.find('{') == pattern.npos) return {pattern};
  return Braces(pattern).words();
}

}  // namespace penstock
