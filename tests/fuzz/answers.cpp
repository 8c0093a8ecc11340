// What servers of data say: heads of answers, bodies of errors, redirects, lists of names.
#include <limits>

#include <penstock/internal/find_files.h>
#include <penstock/remote_files.h>

#include "pipeline/http/answer.h"
#include "pipeline/http/credentials.h"
#include "pipeline/http/list_xml.h"
#include "pipeline/http/name_list.h"
#include "pipeline/io/url.h"
#include "tests/fuzz/support.h"

namespace penstock::fuzz {
namespace {

/// A good answer is for what was asked, whatever else it says.
void check_verdict(const http::AnswerHead& head, const http::WantedRange& wanted) {
  const http::Judgement judgement = http::judge(head, wanted);
  if (judgement.verdict != http::Verdict::good) {
    require(!judgement.why.empty() || judgement.verdict == http::Verdict::empty, "no reason");
    return;
  }
  require(head.status == 200 || head.status == 206, "a good answer of another status");
  require(head.encoding.empty() || head.encoding.size() == 8, "a good answer that is encoded");
  if (wanted.version != 0) require(head.version() == wanted.version, "another version");
  if (head.status == 206 || head.range) {
    require(head.range && head.range->first == wanted.first && head.range->last == wanted.last,
            "another range");
    require(!wanted.size || head.range->size == *wanted.size, "another size");
  }
}

}  // namespace

void run_answer(Bytes bytes) {
  const Input input(bytes);
  const std::string& text = input.file;
  http::HeadReader reader;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    if (!reader.line(std::string_view(text).substr(from, end - from))) break;
    from = end + 1;
  }
  const http::AnswerHead& head = reader.head();
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  for (const http::WantedRange& wanted :
       std::initializer_list<http::WantedRange>{{0, 0, {}, 0},
                                                {10, 19, 100, 0},
                                                {10, 19, 100, head.version()},
                                                {0, 99, 100, 1},
                                                {most - 1, most - 1, most, 0}})
    check_verdict(head, wanted);
  http::judge_whole(head);
  try {
    for (const http::ListedObject& object : http::parse_list_page(text).objects)
      require(!object.key.empty(), "an object without a key");
  } catch (const Error& error) {
    require_answer(error);
  }
  http::parse_profile_file(text);
  const std::string line = http::first_line(text);
  require(line.size() <= 210, "a long line");
  for (const char c : line) require(static_cast<unsigned char>(c) >= 0x20, "a control character");
  const http::Url base = http::parse_url("http://host/a/b");
  try {
    const http::Url url = http::resolve(base, input.option(0) ? text : head.location);
    require(url.scheme == "http" || url.scheme == "https", "another scheme");
    require(http::parse_url(url.whole()).whole() == url.whole(), "another URL the second time");
    for (const char c : url.whole()) require(c > 0x20 && c < 0x7f, "a byte that no URL has");
  } catch (const Error& error) {
    require_answer(error);
  }
  if (text.find_first_of("?@") != text.npos) return;  // secrets are kept for good
  try {
    for (const std::string& name : http::parse_name_list(text, "http://host/list"))
      require(is_remote(name), "a name that is no URL");
    expand_braces(text.substr(0, 64));
  } catch (const Error& error) {
    require_answer(error);
  }
}

std::vector<std::string> answer_seeds() {
  return {
      with_options(0,
                   "HTTP/1.1 206 Partial Content\nContent-Range: bytes 10-19/100\n"
                   "Content-Length: 10\nETag: \"abc\"\nLast-Modified: Mon\n\n"),
      with_options(0, "HTTP/1.1 302 Found\nLocation: https://other/x?y#z\nRetry-After: 3\n\n"),
      with_options(0, "HTTP/1.1 416 x\nContent-Range: bytes */0\nContent-Encoding: gzip\n\n"),
      with_options(0, "HTTP/1.1 100 Continue\n\nHTTP/1.1 200 OK\nContent-Type: text/html\n\n"),
      with_options(1, "../c/./d//e?f"),
      with_options(1, "http://me:pw@[::1]:80/a b/%zz?x"),
      with_options(0, "<?xml?><Error><Code>SlowDown</Code><Message>no</Message></Error>"),
      with_options(0,
                   "<ListBucketResult><Contents><Key>a&amp;&#xe4;</Key><Size>1</Size><ETag>"
                   "&quot;e&quot;</ETag></Contents><IsTruncated>true</IsTruncated>"
                   "<NextContinuationToken>t</NextContinuationToken></ListBucketResult>"),
      with_options(0, "[default]\naws_access_key_id = a\n[profile b]\nregion=c\n"),
      with_options(0, "# names\na-{000..010}.tar\nhttp://host/{a,b}\n"),
  };
}

}  // namespace penstock::fuzz
