#include "pipeline/http/list_xml.h"

#include <charconv>

#include <penstock/error.h>

namespace penstock::http {
namespace {

constexpr std::size_t kMostDepth = 16;
constexpr std::size_t kMostTextBytes = 8 << 10;

[[noreturn]] void wrong_list(const char* what) {
  throw Error(ErrorCode::data_loss, std::string("the list of objects is malformed XML: ") + what);
}

void append_utf8(std::string& out, std::uint32_t code) {
  if (code == 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
    wrong_list("an invalid character");
  const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 63));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 63));
    put(0x80 | (code & 63));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 63));
    put(0x80 | (code >> 6 & 63));
    put(0x80 | (code & 63));
  }
}

void append_entity(std::string& out, std::string_view name) {
  if (name == "amp") return out.push_back('&');
  if (name == "lt") return out.push_back('<');
  if (name == "gt") return out.push_back('>');
  if (name == "quot") return out.push_back('"');
  if (name == "apos") return out.push_back('\'');
  if (!name.starts_with('#')) wrong_list("an unknown entity");
  const bool hex = name.starts_with("#x");
  const std::string_view digits = name.substr(hex ? 2 : 1);
  std::uint32_t code = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), code, hex ? 16 : 10);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size())
    wrong_list("a character without a number");
  append_utf8(out, code);
}

std::string decoded_text(std::string_view text) {
  if (text.size() > kMostTextBytes) wrong_list("a text that is too long");
  std::string out;
  while (!text.empty()) {
    if (text.front() != '&') {
      out += text.front();
      text.remove_prefix(1);
      continue;
    }
    const std::size_t end = text.substr(0, 16).find(';');
    if (end == text.npos) wrong_list("an unterminated entity");
    append_entity(out, text.substr(1, end - 1));
    text.remove_prefix(end + 1);
  }
  return out;
}

/// Walks through elements, and reports each one that closes, with its text.
class ListReader {
 public:
  explicit ListReader(std::string_view xml) : rest_(xml) {}

  ListPage read() {
    while (!rest_.empty()) {
      const std::size_t open = std::min(rest_.find('<'), rest_.size());
      text_ = rest_.substr(0, open);
      rest_.remove_prefix(open);
      if (rest_.empty()) break;
      if (rest_.starts_with("<?")) {
        pass("?>");
      } else if (rest_.starts_with("<!--")) {
        pass("-->");
      } else if (rest_.starts_with("<!")) {
        wrong_list("a document type");
      } else {
        tag();
      }
    }
    if (!seen_root_ || !names_.empty()) wrong_list("it ends early");
    return std::move(page_);
  }

 private:
  void pass(std::string_view end) {
    const std::size_t at = rest_.find(end);
    if (at == rest_.npos) wrong_list("it ends early");
    rest_.remove_prefix(at + end.size());
  }

  void tag() {
    const std::size_t end = rest_.find('>');
    if (end == rest_.npos) wrong_list("it ends early");
    std::string_view inside = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    if (inside.starts_with('/')) return close(inside.substr(1));
    const bool empty = inside.ends_with('/');
    if (empty) inside.remove_suffix(1);
    const std::string_view name = inside.substr(0, inside.find_first_of(" \t\r\n"));
    if (name.empty()) wrong_list("an element without a name");
    if (names_.size() == kMostDepth) wrong_list("elements are nested too deeply");
    if (names_.empty()) {
      if (seen_root_ || name != "ListBucketResult") wrong_list("not a list of objects");
      seen_root_ = true;
    }
    names_.push_back(name);
    if (names_.size() == 2 && name == "Contents") page_.objects.emplace_back();
    if (!empty) return;
    text_ = {};
    close(name);
  }

  void close(std::string_view name) {
    while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
    if (names_.empty() || names_.back() != name) wrong_list("an end tag without a start tag");
    if (names_.size() == 2) of_page(name);
    if (names_.size() == 3 && names_[1] == "Contents") of_object(name);
    names_.pop_back();
    text_ = {};
  }

  void of_page(std::string_view name) {
    if (name == "IsTruncated") page_.truncated = text_ == "true";
    if (name == "NextContinuationToken") page_.next_token = decoded_text(text_);
    if (name == "Contents" && page_.objects.back().key.empty())
      wrong_list("an object without a key");
  }

  void of_object(std::string_view name) {
    ListedObject& object = page_.objects.back();
    if (name == "Key") object.key = decoded_text(text_);
    if (name == "ETag") object.etag = decoded_text(text_);
    if (name != "Size") return;
    const auto [end, error] =
        std::from_chars(text_.data(), text_.data() + text_.size(), object.size);
    if (text_.empty() || error != std::errc() || end != text_.data() + text_.size())
      wrong_list("an object without a size");
  }

  std::string_view rest_;
  std::string_view text_;  // since the last tag
  std::vector<std::string_view> names_;
  bool seen_root_ = false;
  ListPage page_;
};

}  // namespace

ListPage parse_list_page(std::string_view xml) {
  ListPage page = ListReader(xml).read();
  if (page.truncated && page.next_token.empty())
    wrong_list("it is truncated and names no next page");
  return page;
}

}  // namespace penstock::http
