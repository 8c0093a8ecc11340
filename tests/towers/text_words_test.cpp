// The words of texts.
#include "towers/text_words.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/rng.h>

#include "tests/support/errors.h"

namespace penstock::towers {
namespace {

using penstock::test::expect_error;

constexpr std::int64_t kBuckets = 1 << 14;

std::vector<std::int64_t> words_of(std::string_view text, std::size_t room = 24) {
  std::vector<std::int64_t> ids(room, 7);
  hash_words(text, kBuckets, ids);
  const auto end = std::ranges::find(ids, -1);
  EXPECT_TRUE(std::all_of(end, ids.end(), [](std::int64_t id) { return id == -1; }));
  ids.erase(end, ids.end());
  return ids;
}

std::vector<std::int64_t> hashes(const std::vector<std::string>& words) {
  std::vector<std::int64_t> ids;
  for (const std::string& word : words) {
    std::uint64_t hash = 0;
    for (const char c : word) hash = mix_path(hash, static_cast<unsigned char>(c));
    ids.push_back(static_cast<std::int64_t>(hash % kBuckets));
  }
  return ids;
}

TEST(TextWords, OfAsciiAreInLowerCase) {
  EXPECT_EQ(words_of("How do I, er, reset 2 things?"),
            hashes({"how", "do", "i", "er", "reset", "2", "things"}));
  EXPECT_TRUE(words_of("").empty());
  EXPECT_TRUE(words_of(" ,;\t").empty());
  EXPECT_EQ(words_of("a b c d", 3), hashes({"a", "b", "c"})) << "what there is room for";
  EXPECT_TRUE(words_of("a", 0).empty());
}

TEST(TextWords, BeyondAsciiAreRefusedWhereNothingFindsThem) {
  if (has_unicode()) GTEST_SKIP() << "this build has ICU";
  expect_error(ErrorCode::mismatch, "has no ICU", [] { words_of("学习"); });
}

TEST(TextWords, BeyondAsciiAreThoseOfADictionary) {
  if (!has_unicode()) GTEST_SKIP() << "this build has no ICU";
  struct Case {
    std::string text;
    std::vector<std::string> words;
  };
  for (const Case& c : std::vector<Case>{{"学习", {"学习"}},
                                         {"我们学习音乐。", {"我们", "学习", "音乐"}},
                                         {"iPhone手机 OK", {"iphone", "手机", "ok"}},
                                         {"ＡＢＣ１", {"abc1"}},
                                         {"Привет, МИР", {"привет", "мир"}},
                                         {"Straße", {"strasse"}},
                                         {"caf\u00E9", {"caf\u00E9"}},
                                         {"cafe\u0301", {"caf\u00E9"}},
                                         {"한국어 학교", {"한국어", "학교"}},
                                         {"！？…", {}},
                                         {"a\u00ADb é", {"ab", "é"}}})
    EXPECT_EQ(words_of(c.text), hashes(c.words)) << c.text;
  EXPECT_EQ(words_of("我们学习音乐", 2), hashes({"我们", "学习"}));
}

TEST(TextWords, OfWhatIsNoUtf8AreRefusedWithThePlace) {
  if (!has_unicode()) GTEST_SKIP() << "this build has no ICU";
  for (const std::string& wrong : {std::string("ab\xFF"), std::string("ab\xE5\xAD"),
                                   std::string("ab\xC0\x80"), std::string("ab\xED\xA0\x80")})
    expect_error(ErrorCode::mismatch, "not UTF-8 from byte 2 on", [&] { words_of(wrong); });
}

}  // namespace
}  // namespace penstock::towers
