#include "towers/text_words.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <utility>

#if PENSTOCK_HAVE_ICU
#include <unicode/brkiter.h>
#include <unicode/normalizer2.h>
#include <unicode/ubrk.h>
#include <unicode/utf8.h>
#endif

#include <penstock/error.h>
#include <penstock/rng.h>

namespace penstock::towers {
namespace {

/// Stores words as long as there is room.
class Words {
 public:
  Words(std::int64_t buckets, std::span<std::int64_t> ids) : buckets_(buckets), ids_(ids) {
    std::ranges::fill(ids_, -1);
  }
  bool full() const noexcept { return count_ == ids_.size(); }
  void add(std::string_view word) {
    if (full()) return;
    std::uint64_t hash = 0;
    for (const char c : word) hash = mix_path(hash, static_cast<unsigned char>(c));
    ids_[count_++] = static_cast<std::int64_t>(hash % static_cast<std::uint64_t>(buckets_));
  }

 private:
  const std::int64_t buckets_;
  const std::span<std::int64_t> ids_;
  std::size_t count_ = 0;
};

void add_ascii(std::string_view text, Words& words) {
  std::string word;
  for (std::size_t at = 0; at <= text.size() && !words.full(); ++at) {
    const auto c = at < text.size() ? static_cast<unsigned char>(text[at]) : '\0';
    if (std::isalnum(c) != 0) {
      word += static_cast<char>(std::tolower(c));
    } else if (!word.empty()) {
      words.add(word);
      word.clear();
    }
  }
}

#if PENSTOCK_HAVE_ICU

/// Throws Error{mismatch}, with the position, for bytes that are not UTF-8.
void check_utf8(std::string_view text) {
  const auto size = static_cast<std::int32_t>(text.size());
  for (std::int32_t at = 0; at < size;) {
    const std::int32_t begin = at;
    UChar32 code = 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"  // in ICU's macro
    U8_NEXT(text.data(), at, size, code);
#pragma GCC diagnostic pop
    if (code < 0)
      throw Error(ErrorCode::mismatch,
                  "the text is not UTF-8 from byte " + std::to_string(begin) + " on");
  }
}

void ensure(UErrorCode status, const char* what) {
  if (status == U_MEMORY_ALLOCATION_ERROR) throw std::bad_alloc();
  if (U_FAILURE(status))
    throw Error(ErrorCode::unavailable,
                std::string("ICU can't ") + what + ": " + u_errorName(status));
}

/// Returns the calling thread's iterator. Each thread has its own, because iterators are expensive
/// to make, and hold a position in their text.
icu::BreakIterator& word_breaks() {
  static thread_local std::unique_ptr<icu::BreakIterator> breaks;
  if (!breaks) {
    UErrorCode status = U_ZERO_ERROR;
    std::unique_ptr<icu::BreakIterator> made(
        icu::BreakIterator::createWordInstance(icu::Locale::getRoot(), status));
    ensure(status, "find words");
    breaks = std::move(made);
  }
  return *breaks;
}

icu::UnicodeString folded(std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* const form = icu::Normalizer2::getNFKCCasefoldInstance(status);
  ensure(status, "normalise");
  icu::UnicodeString made = form->normalize(
      icu::UnicodeString::fromUTF8({text.data(), static_cast<std::int32_t>(text.size())}), status);
  ensure(status, "normalise");
  return made;
}

void add_unicode(std::string_view text, Words& words) {
  check_utf8(text);
  const icu::UnicodeString all = folded(text);
  icu::BreakIterator& breaks = word_breaks();
  breaks.setText(all);
  std::int32_t begin = breaks.first();
  for (std::int32_t end = breaks.next(); end != icu::BreakIterator::DONE && !words.full();
       begin = end, end = breaks.next()) {
    if (breaks.getRuleStatus() < UBRK_WORD_NONE_LIMIT) continue;  // spaces and punctuation
    std::string word;
    all.tempSubStringBetween(begin, end).toUTF8String(word);
    words.add(word);
  }
}

#else

void add_unicode(std::string_view /*text*/, Words& /*words*/) {
  throw Error(ErrorCode::mismatch,
              "the text is not only ASCII, and this build of Penstock has no ICU (libicu) to find "
              "its words");
}

#endif

}  // namespace

bool has_unicode() noexcept {
  return PENSTOCK_HAVE_ICU != 0;
}

void hash_words(std::string_view text, std::int64_t buckets, std::span<std::int64_t> ids) {
  Words words(buckets, ids);
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (text.size() > std::numeric_limits<std::int32_t>::max() / 4)
    throw Error(ErrorCode::out_of_range, "a text of more than 512 MiB has no words here");
  if (std::ranges::all_of(text, is_ascii)) {
    add_ascii(text, words);
  } else {
    add_unicode(text, words);
  }
}

}  // namespace penstock::towers
