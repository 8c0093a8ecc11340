// Heads of answers, and what is to be thought of them.
#include "pipeline/http/answer.h"

#include <vector>

#include <gmock/gmock.h>

namespace penstock::http {
namespace {

using testing::HasSubstr;

using Lines = std::vector<const char*>;

AnswerHead head_of(const Lines& lines) {
  HeadReader reader;
  for (const char* line : lines) reader.line(line);
  reader.line("");
  EXPECT_TRUE(reader.ended() || reader.head().malformed || reader.head().status < 200);
  return reader.head();
}

TEST(AnswerHead, IsReadLineByLine) {
  const AnswerHead head =
      head_of({"HTTP/1.1 206 Partial Content", "content-LENGTH: 10", "Content-Range:bytes 5-14/100",
               "ETag: \"abc\"", "X-Other: y", "Retry-After: 7"});
  EXPECT_FALSE(head.malformed);
  EXPECT_EQ(head.status, 206);
  EXPECT_EQ(head.content_length, 10);
  ASSERT_TRUE(head.range);
  EXPECT_EQ(head.range->first, 5);
  EXPECT_EQ(head.range->last, 14);
  EXPECT_EQ(head.range->size, 100);
  EXPECT_EQ(head.strong_etag(), "\"abc\"");
  EXPECT_EQ(head.retry_after_s, 7);
  EXPECT_NE(head.version(), 0);
}

TEST(AnswerHead, OfAnInterimAnswerIsForgotten) {
  const AnswerHead head = head_of(
      {"HTTP/1.1 103 Early Hints", "ETag: \"no\"", "", "HTTP/1.1 200 OK", "Content-Length: 1"});
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.etag, "");
}

TEST(AnswerHead, Contradictions) {
  for (const Lines& lines : std::vector<Lines>{
           {"HTTP/1.1 206 x", "Content-Length: 1", "Content-Length: 2"},
           {"HTTP/1.1 206 x", "Content-Length: -1"},
           {"HTTP/1.1 206 x", "Content-Length: 99999999999999999999"},
           {"HTTP/1.1 206 x", "Content-Range: bytes 5-4/10"},
           {"HTTP/1.1 206 x", "Content-Range: bytes 5-10/10"},
           {"HTTP/1.1 206 x", "Content-Range: bytes 5-9/*"},
           {"HTTP/1.1 206 x", "Content-Range: lines 5-9/10"},
           {"HTTP/1.1 206 x", "Content-Range: bytes 1-2/5", "Content-Range: bytes 1-2/5"},
           {"HTTP/1.1 206 x", "ETag: \"a\"", "ETag: \"b\""},
           {"HTTP/1.1 xyz"},
           {"HTTP/1.1"},
           {"HTTP/1.1 20"}})
    EXPECT_TRUE(head_of(lines).malformed) << lines.back();
}

TEST(AnswerHead, IsOfBoundedSize) {
  HeadReader many;
  many.line("HTTP/1.1 200 OK");
  bool more = true;
  for (std::size_t i = 0; more && i < 100'000; ++i) more = many.line("X: y");
  EXPECT_FALSE(more);
  EXPECT_TRUE(many.head().malformed);
  HeadReader large;
  large.line("HTTP/1.1 200 OK");
  EXPECT_FALSE(large.line("X: " + std::string(HeadReader::kMostBytes, 'y')));
}

constexpr const char* kPart = "HTTP/1.1 206 Partial Content";
constexpr const char* kRange = "Content-Range: bytes 10-19/100";

TEST(Judge, AnswersToARange) {
  const std::uint64_t version = head_of({"HTTP/1.1 200 OK", "ETag: \"v\""}).version();
  const WantedRange wanted{10, 19, 100, version};
  struct Case {
    Lines head;
    Verdict verdict;
    const char* why;
  };
  const Case table[] = {
      {{kPart, kRange, "ETag: \"v\"", "Content-Length: 10"}, Verdict::good, ""},
      {{kPart, kRange, "ETag: \"v\"", "Content-Encoding: identity"}, Verdict::good, ""},
      {{kPart, kRange, "ETag: \"w\""}, Verdict::changed, "its ETag is another"},
      {{kPart, kRange, "ETag: W/\"v\""}, Verdict::changed, "its ETag is another"},
      {{kPart, kRange}, Verdict::again, "no ETag"},
      {{kPart, "Content-Range: bytes 10-19/101", "ETag: \"v\""}, Verdict::changed, "101 bytes"},
      {{kPart, "Content-Range: bytes 10-18/100", "ETag: \"v\""}, Verdict::again, "range 10-18"},
      {{kPart, "ETag: \"v\""}, Verdict::again, "without a Content-Range"},
      {{kPart, kRange, "ETag: \"v\"", "Content-Length: 9"}, Verdict::again, "contradicts"},
      {{kPart, kRange, "ETag: \"v\"", "Content-Encoding: gzip"}, Verdict::unusable, "gzip"},
      {{"HTTP/1.1 200 OK", "ETag: \"v\"", "Content-Length: 100"},
       Verdict::refused,
       "200 for a range"},
      {{"HTTP/1.1 200 OK", kRange, "ETag: \"v\"", "Content-Length: 10"}, Verdict::good, ""},
      {{"HTTP/1.1 302 Found", "Location: /x"}, Verdict::redirect, "302"},
      {{"HTTP/1.1 302 Found"}, Verdict::again, "without a Location"},
      {{"HTTP/1.1 400 Bad Request"}, Verdict::unusable, "HTTP 400"},
      {{"HTTP/1.1 401 Unauthorized"}, Verdict::refused, "HTTP 401"},
      {{"HTTP/1.1 403 Forbidden"}, Verdict::refused, "HTTP 403"},
      {{"HTTP/1.1 404 Not Found"}, Verdict::refused, "HTTP 404"},
      {{"HTTP/1.1 408 Timeout"}, Verdict::again, "HTTP 408"},
      {{"HTTP/1.1 412 x"}, Verdict::refused, "HTTP 412"},
      {{"HTTP/1.1 429 x"}, Verdict::throttled, "HTTP 429"},
      {{"HTTP/1.1 500 x"}, Verdict::again, "HTTP 500"},
      {{"HTTP/1.1 503 x"}, Verdict::throttled, "HTTP 503"},
      {{"HTTP/1.1 206 x", "Content-Range: nonsense"}, Verdict::again, "malformed header"},
      {{"HTTP/1.1 999 x"}, Verdict::again, "HTTP 999"},
  };
  for (const Case& row : table) {
    const Judgement judgement = judge(head_of(row.head), wanted);
    EXPECT_EQ(judgement.verdict, row.verdict) << row.head.back();
    EXPECT_THAT(judgement.why, HasSubstr(row.why));
  }
}

TEST(Judge, WholeObject) {
  const AnswerHead whole = head_of({"HTTP/1.1 200 OK", "ETag: \"v\"", "Content-Length: 100"});
  EXPECT_EQ(judge(whole, {0, 99, 100, whole.version()}).verdict, Verdict::good);
  EXPECT_EQ(judge(whole, {0, 98, 100, whole.version()}).verdict, Verdict::refused);
  EXPECT_EQ(judge(whole, {0, 0, {}, 0}).verdict, Verdict::refused);
  const AnswerHead chunked = head_of({"HTTP/1.1 200 OK", "ETag: \"v\""});
  EXPECT_EQ(judge(chunked, {0, 99, 100, whole.version()}).verdict, Verdict::good);
  EXPECT_EQ(judge(chunked, {0, 98, 100, whole.version()}).verdict, Verdict::refused);
}

TEST(Judge, VersionsByDate) {
  constexpr const char* kDate = "Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT";
  constexpr const char* kLater = "Last-Modified: Wed, 21 Oct 2015 07:28:01 GMT";
  const AnswerHead found = head_of({"HTTP/1.1 200 OK", "ETag: \"v\"", kDate});
  struct Case {
    std::vector<const char*> more;
    bool by_date;
    Verdict verdict;
    const char* why;
  };
  const std::vector<Case> table = {
      {{"ETag: \"v\"", kDate}, false, Verdict::good, ""},
      {{"ETag: \"w\"", kDate}, false, Verdict::changed, "--trust-data"},
      {{"ETag: \"w\"", kDate}, true, Verdict::good, ""},
      {{"ETag: \"v\"", kLater}, false, Verdict::good, ""},
      {{"ETag: \"v\"", kLater}, true, Verdict::changed, "Last-Modified is another"},
      {{kDate}, true, Verdict::good, ""},
      {{}, true, Verdict::again, "no ETag"},
  };
  for (const Case& row : table) {
    std::vector<const char*> lines{"HTTP/1.1 206 Partial Content",
                                   "Content-Range: bytes 10-19/100"};
    lines.insert(lines.end(), row.more.begin(), row.more.end());
    const Judgement judgement = judge(head_of(lines), {.first = 10,
                                                       .last = 19,
                                                       .size = 100,
                                                       .version = found.version(row.by_date),
                                                       .by_date = row.by_date,
                                                       .modified = found.last_modified});
    EXPECT_EQ(judgement.verdict, row.verdict) << judgement.why;
    EXPECT_THAT(judgement.why, HasSubstr(row.why));
  }
  const Judgement later =
      judge(head_of({"HTTP/1.1 206 x", "Content-Range: bytes 10-19/100", "ETag: \"w\"", kLater}),
            {.first = 10,
             .last = 19,
             .size = 100,
             .version = found.version(),
             .modified = found.last_modified});
  EXPECT_EQ(later.verdict, Verdict::changed);
  EXPECT_EQ(later.why.find("--trust-data"), std::string::npos);
}

TEST(Judge, EmptyObject) {
  const AnswerHead head = head_of({"HTTP/1.1 416 x", "Content-Range: bytes */0"});
  EXPECT_EQ(judge(head, {0, 0, {}, 0}).verdict, Verdict::empty);
  EXPECT_EQ(judge(head, {0, 0, 5, 0}).verdict, Verdict::again);
}

TEST(FirstLine, SaysWhatAnErrorIs) {
  EXPECT_EQ(first_line("<?xml version=\"1.0\"?>\n<Error><Code>SlowDown</Code><Message>Please "
                       "reduce</Message><Signature>secret</Signature></Error>"),
            "SlowDown: Please reduce");
  EXPECT_EQ(first_line("\n\n  <!DOCTYPE html>\n<html>"), "<!DOCTYPE html>");
  EXPECT_EQ(first_line(std::string(1000, 'x')).size(), 203);  // and an ellipsis
  EXPECT_EQ(first_line("a\x1b[31mb\xff"), "a [31mb?");
  EXPECT_EQ(first_line(""), "");
}

}  // namespace
}  // namespace penstock::http
