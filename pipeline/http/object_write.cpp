#include "pipeline/http/object_write.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <random>

#include "pipeline/http/basic_auth.h"

namespace penstock::http {
namespace {

constexpr std::size_t kMostWriteAnswer = 64 << 10;

/// Returns the header Content-MD5, by which the server checks a body on arrival, besides the signed
/// SHA-256.
std::string md5_header(std::string_view content) {
  if (content.empty()) return {};
  const std::optional<Md5> digest = remote_module().md5(content);
  if (!digest) return {};
  return "Content-MD5: " + base64({reinterpret_cast<const char*>(digest->data()), digest->size()});
}

RemoteOptions with_deadline(RemoteOptions options, const ObjectRequest& request) {
  options.deadline = request.deadline.value_or(options.deadline);
  return options;
}

/// Returns true for errors with status 200 that a retry may avoid.
bool is_passing(std::string_view code) noexcept {
  for (const char* name : {"InternalError", "SlowDown", "ServiceUnavailable", "RequestTimeout"})
    if (code == name) return true;
  return false;
}

}  // namespace

class ObjectWrite::Taker final : public BodyTaker {
 public:
  explicit Taker(const ObjectRequest& request) : request_(request) {}

  Judgement judge(const AnswerHead& head) const override {
    const auto& also = request_.also;
    if (!head.malformed && std::find(also.begin(), also.end(), head.status) != also.end())
      return {Verdict::good, {}};
    return judge_write(head, request_.wants_etag, request_.element.empty());
  }
  bool take(std::span<const std::byte> bytes) noexcept override try {
    if (bytes.size() > kMostWriteAnswer - text_.size()) return false;
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return true;
  } catch (...) {  // no memory
    return false;
  }
  bool full() const noexcept override { return true; }
  void restart() noexcept override { text_.clear(); }
  Judgement judge_body() const override {
    if (request_.element.empty()) return {Verdict::good, {}};
    const std::string said = first_line(text_);
    if (text_.find("<Error>") != text_.npos) {
      const bool again = is_passing(element_of(text_, "Code"));
      return {again ? Verdict::again : Verdict::unusable, "HTTP 200 with an error: " + said};
    }
    if (text_.find('<' + std::string(request_.element)) != text_.npos) return {Verdict::good, {}};
    return {Verdict::again, "HTTP 200 without " + std::string(request_.element) +
                                (said.empty() ? "" : ": " + said)};
  }
  bool is_write() const noexcept override {
    return request_.method != "GET" && request_.method != "HEAD";
  }
  std::uint64_t bytes_written() const noexcept override { return request_.content.size(); }
  std::string& text() noexcept { return text_; }

 private:
  const ObjectRequest& request_;
  std::string text_;
};

ObjectWrite::ObjectWrite(const ObjectPlace& place, ObjectRequest request)
    : place_(place),
      request_(std::move(request)),
      md5_(md5_header(request_.content)),
      options_(with_deadline(place.client->options(), request_)),
      taker_(std::make_unique<Taker>(request_)),
      asking_(
          [this] {
            const Asker asker = place_.client->asker();
            return Asker{asker.transport, asker.pace, options_, asker.redirects, asker.authorizer};
          }(),
          place_.path, *taker_, request_.content.size(),
          [this](const Url& url, std::chrono::milliseconds timeout) {
            HttpRequest made;
            made.method = request_.method;
            made.content = request_.content;
            made.headers = request_.headers;
            if (!request_.content.empty()) {
              made.headers.emplace_back("Content-Type: application/octet-stream");
              if (!md5_.empty()) made.headers.push_back(md5_);
            }
            made = place_.client->request_for(url, timeout, std::move(made));
            if (request_.may_be_silent) made.stall = timeout;
            return made;
          }) {}

ObjectWrite::~ObjectWrite() = default;

void ObjectWrite::begin() {
  Url url = place_.url();
  url.query = request_.query;
  asking_.begin(url);
}

bool ObjectWrite::arrived() const noexcept {
  return asking_.arrived();
}

std::string ObjectWrite::finish() {
  asking_.finish();
  return std::move(taker_->text());
}

const AnswerHead& ObjectWrite::head() const noexcept {
  return asking_.head();
}

std::string new_write_mark() {
  std::random_device device;
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%08x%08x%08x%08x", device(), device(), device(),
                device());
  return text.data();
}

std::string write_mark_header(const std::string& mark) {
  return std::string(kWriteMark) + ": " + mark;
}

}  // namespace penstock::http
