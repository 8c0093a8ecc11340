#include "pipeline/http/answer.h"

#include <algorithm>
#include <charconv>
#include <span>

#include <penstock/remote_files.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace penstock::http {
namespace {

constexpr std::size_t kMostText = 512;  // bytes of a field that is kept
constexpr std::size_t kMostShown = 200;

std::string_view trimmed(std::string_view text) noexcept {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

bool same_word(std::string_view a, std::string_view b) noexcept {
  const auto small = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return small(x) == small(y); });
}

std::optional<std::uint64_t> number_of(std::string_view text) noexcept {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

/// RFC 9110 14.4.
std::optional<AnswerHead::Range> content_range_of(std::string_view text) noexcept {
  if (text.size() < 6 || !same_word(text.substr(0, 5), "bytes")) return {};
  text = trimmed(text.substr(5));
  const std::size_t slash = text.find('/');
  if (slash == text.npos) return {};
  const auto size = number_of(text.substr(slash + 1));
  const std::string_view span = text.substr(0, slash);
  if (!size) return {};
  if (span == "*") return AnswerHead::Range{0, 0, *size, true};
  const std::size_t dash = span.find('-');
  if (dash == span.npos) return {};
  const auto first = number_of(span.substr(0, dash));
  const auto last = number_of(span.substr(dash + 1));
  if (!first || !last || *first > *last || *last >= *size) return {};
  return AnswerHead::Range{*first, *last, *size, false};
}

std::string status_text(int status) {
  const char* name = "";
  switch (status) {
    case 200:
      name = " OK";
      break;
    case 206:
      name = " Partial Content";
      break;
    case 400:
      name = " Bad Request";
      break;
    case 401:
      name = " Unauthorized";
      break;
    case 403:
      name = " Forbidden";
      break;
    case 404:
      name = " Not Found";
      break;
    case 408:
      name = " Request Timeout";
      break;
    case 409:
      name = " Conflict";
      break;
    case 410:
      name = " Gone";
      break;
    case 412:
      name = " Precondition Failed";
      break;
    case 416:
      name = " Range Not Satisfiable";
      break;
    case 429:
      name = " Too Many Requests";
      break;
    case 500:
      name = " Internal Server Error";
      break;
    case 502:
      name = " Bad Gateway";
      break;
    case 503:
      name = " Service Unavailable";
      break;
    case 504:
      name = " Gateway Timeout";
      break;
    default:
      break;
  }
  return "HTTP " + std::to_string(status) + name;
}

/// Returns true if the answer's bytes are not the object's. Stores send back the Content-Encoding
/// that an upload named, whatever it is, and many uploads name what is no encoding of bytes. `gz`:
/// the object is a .gz file, whose encoding is its own.
bool is_encoded(const AnswerHead& head, bool gz) noexcept {
  constexpr std::string_view kNone[] = {"",      "identity", "aws-chunked", "binary",
                                        "utf-8", "utf8",     "us-ascii",    "8bit",
                                        "7bit",  "none",     "base64"};
  constexpr std::string_view kGzip[] = {"gzip", "x-gzip"};
  const auto is_one_of = [](std::string_view word, std::span<const std::string_view> words) {
    return std::ranges::any_of(words, [=](std::string_view one) { return same_word(word, one); });
  };
  std::string_view rest = head.encoding;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const std::string_view word = trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!is_one_of(word, kNone) && !(gz && is_one_of(word, kGzip))) return true;
  }
  return false;
}

/// Judges all statuses other than success.
Judgement judge_status(const AnswerHead& head) {
  std::string why = status_text(head.status);
  switch (head.status) {
    case 301:
    case 302:
    case 303:
    case 307:
    case 308:
      if (head.location.empty()) return {Verdict::again, why + " without a Location"};
      return {Verdict::redirect, std::move(why)};
    case 401:
    case 403:
    case 404:
    case 410:
    case 412:
      return {Verdict::refused, std::move(why)};
    case 429:
    case 503:
      return {Verdict::throttled, std::move(why)};
    default:
      break;
  }
  const bool passing = head.status == 408 || head.status == 416 || head.status >= 500;
  return {passing ? Verdict::again : Verdict::unusable, std::move(why)};
}

Judgement encoded_answer(const AnswerHead& head) {
  return {Verdict::unusable, "the server sends the file encoded (Content-Encoding: " +
                                 head.encoding + "), so offsets would be wrong"};
}

std::string printable_part(std::string_view text) {
  std::string out;
  bool blank = false;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte == 0x7f) {
      blank = !out.empty();
      continue;
    }
    if (out.size() >= kMostShown) return out + "…";
    if (blank) out += ' ';
    blank = false;
    out += byte < 0x80 ? c : '?';
  }
  return out;
}

}  // namespace

bool refuses_credentials(const AnswerHead& head, std::string_view body) noexcept {
  if (head.status == 401 || head.status == 403) return true;
  if (head.status != 400) return false;
  constexpr std::string_view kCodes[] = {"<Code>ExpiredToken</Code>", "<Code>InvalidToken</Code>",
                                         "<Code>TokenRefreshRequired</Code>",
                                         "<Code>RequestExpired</Code>"};
  return std::ranges::any_of(kCodes,
                             [&](std::string_view code) { return body.find(code) != body.npos; });
}

std::uint64_t AnswerHead::version(bool by_date) const noexcept {
  const bool dated = !last_modified.empty() && (by_date || etag.empty());
  const std::string& name = dated ? last_modified : etag;
  if (name.empty()) return 0;
  const std::uint64_t hash = XXH3_64bits(name.data(), name.size());
  return hash == 0 ? 1 : hash;
}

std::string_view AnswerHead::strong_etag() const noexcept {
  return etag.starts_with('"') ? std::string_view(etag) : std::string_view();
}

bool HeadReader::line(std::string_view line) noexcept try {
  bytes_ += line.size() + 2;
  ++lines_;
  if (bytes_ > kMostBytes || lines_ > kMostLines) {
    head_.malformed = true;
    ended_ = true;
    return false;
  }
  if (line.starts_with("HTTP/")) {
    head_ = {};
    ended_ = false;
    const std::size_t blank = line.find(' ');
    const auto status =
        blank == line.npos ? std::nullopt : number_of(trimmed(line.substr(blank)).substr(0, 3));
    head_.malformed = !status || *status < 100;
    head_.status = status ? static_cast<int>(*status) : 0;
    return !head_.malformed;
  }
  if (ended_) return true;  // a trailer
  if (line.empty()) {
    ended_ = true;
    return true;
  }
  const std::size_t colon = line.find(':');
  if (colon == line.npos) return true;
  field(line.substr(0, colon), trimmed(line.substr(colon + 1)));
  return true;
} catch (...) {  // no memory
  head_.malformed = true;
  return false;
}

void HeadReader::field(std::string_view name, std::string_view value) {
  const auto keep = [&](std::string& text) {
    if (value.size() > kMostText || (!text.empty() && text != value)) head_.malformed = true;
    text = value.substr(0, kMostText);
  };
  if (same_word(name, "content-length")) {
    const auto length = number_of(value);
    if (!length || (head_.content_length && head_.content_length != length)) head_.malformed = true;
    head_.content_length = length;
  } else if (same_word(name, "content-range")) {
    if (head_.range) head_.malformed = true;
    head_.range = content_range_of(value);
    if (!head_.range) head_.malformed = true;
  } else if (same_word(name, "etag")) {
    keep(head_.etag);
  } else if (same_word(name, "last-modified")) {
    keep(head_.last_modified);
  } else if (same_word(name, "content-encoding")) {
    keep(head_.encoding);
  } else if (same_word(name, "content-type")) {
    head_.type = value.substr(0, kMostText);
  } else if (same_word(name, "date")) {
    head_.date = value.substr(0, kMostText);
  } else if (same_word(name, "location")) {
    head_.location = value.size() <= 16 << 10 ? value : std::string_view();
  } else if (same_word(name, kWriteMark) || same_word(name, "x-goog-meta-penstock-write")) {
    head_.write_mark = value.substr(0, kMostText);
  } else if (same_word(name, "x-amz-bucket-region")) {
    head_.bucket_region = value.substr(0, kMostText);
  } else if (same_word(name, "retry-after")) {
    head_.retry_after_s = number_of(value);
  }
}

Judgement judge(const AnswerHead& head, const WantedRange& wanted) {
  if (head.malformed || head.status == 0)
    return {Verdict::again, "the answer has a malformed header"};
  const bool whole_wanted = wanted.first == 0 && wanted.size && wanted.last + 1 == *wanted.size;
  if (head.status == 416 && wanted.first == 0 && head.range && head.range->unsatisfied &&
      head.range->size == 0 && wanted.size.value_or(0) == 0) {
    return {Verdict::empty, {}};
  }
  // An object without its first byte is empty, also where the answer does not say so.
  if (head.status == 416 && wanted.first == 0 && !head.range && wanted.size.value_or(0) == 0)
    return {Verdict::empty, {}};
  if (head.status != 200 && head.status != 206) return judge_status(head);
  if (is_encoded(head, wanted.gz)) return encoded_answer(head);
  const std::uint64_t version = head.version(wanted.by_date);
  if (wanted.version != 0 && version != 0 && version != wanted.version) {
    if (wanted.by_date || head.etag.empty())
      return {Verdict::changed,
              "the object has changed since it was found: its Last-Modified is another"};
    const std::uint64_t size = head.range ? head.range->size : head.content_length.value_or(0);
    const bool same = !wanted.modified.empty() && head.last_modified == wanted.modified &&
                      size == wanted.size.value_or(0);
    return {Verdict::changed,
            std::string("the object has changed since it was found: its ETag is another") +
                (same ? "; its size and Last-Modified are as before: if that is enough, "
                        "--trust-data (RemoteOptions::trust_dates) reads on"
                      : "")};
  }
  if (wanted.version != 0 && version == 0)
    return {Verdict::again,
            head.type.starts_with("text/html")
                ? "the server sent an HTML page instead, as proxies and login pages do"
                : "the answer has no ETag, but earlier ones had"};
  // rclone's S3 answers a range with 200, but sends a Content-Range with it.
  if (head.status == 200 && !head.range) {
    if (whole_wanted && head.content_length.value_or(*wanted.size) == *wanted.size)
      return {Verdict::good, {}};
    return {Verdict::refused,
            "HTTP 200 for a range: the server, or a proxy, does not support ranges"};
  }
  if (!head.range || head.range->unsatisfied)
    return {Verdict::again, "HTTP 206 without a Content-Range"};
  const AnswerHead::Range& range = *head.range;
  if (wanted.size && range.size != *wanted.size)
    return {Verdict::changed, "the object has changed since it was found: it has " +
                                  std::to_string(range.size) + " bytes rather than " +
                                  std::to_string(*wanted.size)};
  if (range.first != wanted.first || range.last != wanted.last)
    return {Verdict::again, "HTTP 206 of the range " + std::to_string(range.first) + "-" +
                                std::to_string(range.last) + " rather than " +
                                std::to_string(wanted.first) + "-" + std::to_string(wanted.last)};
  if (head.content_length && *head.content_length != range.last - range.first + 1)
    return {Verdict::again, "HTTP 206 whose Content-Length contradicts its Content-Range"};
  return {Verdict::good, {}};
}

bool is_gz_name(std::string_view path) noexcept {
  path = without_query(path);
  constexpr std::string_view kEnds[] = {".gz", ".tgz", ".gzip"};
  return std::ranges::any_of(kEnds, [=](std::string_view end) {
    return path.size() > end.size() && same_word(path.substr(path.size() - end.size()), end);
  });
}

Judgement judge_whole(const AnswerHead& head, bool gz) {
  if (head.malformed || head.status == 0)
    return {Verdict::again, "the answer has a malformed header"};
  if (head.status != 200) return judge_status(head);
  if (is_encoded(head, gz)) return encoded_answer(head);
  return {Verdict::good, {}};
}

Judgement judge_write(const AnswerHead& head, bool etag, bool bare) {
  if (head.malformed || head.status == 0)
    return {Verdict::again, "the answer has a malformed header"};
  // Another write of the same object is under way.
  if (head.status == 409) return {Verdict::again, status_text(head.status)};
  // Servers also send 400 for bytes that were damaged or slow on their way; a retry then succeeds.
  if (head.status == 400) return {Verdict::refused, status_text(head.status)};
  if (head.status >= 300) return judge_status(head);
  if (head.status != 200 && head.status != 201 && head.status != 204)
    return {Verdict::again, status_text(head.status)};
  if (bare && head.status != 204 && head.type.starts_with("text/html") && head.content_length != 0)
    return {Verdict::again, status_text(head.status) + " with a page of HTML"};
  if (etag && head.etag.empty())
    return {Verdict::again, status_text(head.status) + " without an ETag"};
  return {Verdict::good, {}};
}

std::string element_of(std::string_view xml, std::string_view name) {
  const std::string open = '<' + std::string(name) + '>';
  const std::size_t at = xml.find(open);
  if (at == xml.npos) return {};
  const std::string_view rest = xml.substr(at + open.size());
  return std::string(rest.substr(0, rest.find('<')));
}

std::string first_line(std::string_view body) {
  if (body.find("<Error>") != body.npos) {
    const std::string code = element_of(body, "Code");
    const std::string message = element_of(body, "Message");
    if (!code.empty() || !message.empty())
      return printable_part(code + (code.empty() || message.empty() ? "" : ": ") + message);
  }
  std::string text;
  for (const char c : body.substr(0, 4096)) {
    if (c == '\n' && !printable_part(text).empty()) break;
    text += c;
  }
  return printable_part(text);
}

}  // namespace penstock::http
