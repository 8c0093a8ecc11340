// Answers of servers, and the check that they match the request. Independent of connections.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::http {

/// The header under which a writer stores a mark of its own with an object. The mark tells the
/// writer that the object is its own write if the answer to it was lost.
inline constexpr std::string_view kWriteMark = "x-amz-meta-penstock-write";

/// The fields of an answer's head that are used.
struct AnswerHead {
  int status = 0;
  bool malformed = false;  ///< no head, or one that contradicts itself or does not end
  std::optional<std::uint64_t> content_length;
  /// Content-Range: bytes first-last/size; `unsatisfied` for bytes */size.
  struct Range {
    std::uint64_t first = 0, last = 0, size = 0;
    bool unsatisfied = false;
  };
  std::optional<Range> range;
  std::string etag, last_modified, encoding, location, type, date;
  std::string bucket_region;  ///< x-amz-bucket-region
  std::string write_mark;     ///< mark of the object's writer, see kWriteMark
  std::optional<std::uint64_t> retry_after_s;

  /// Returns a hash that identifies the contents: of the ETag, weak or strong, else of
  /// Last-Modified; with `by_date` first of Last-Modified. Returns 0 if there is neither.
  std::uint64_t version(bool by_date = false) const noexcept;
  /// Returns the ETag if it can be sent in If-Match, which compares strong ETags only; otherwise an
  /// empty string.
  std::string_view strong_etag() const noexcept;
};

/// Reads heads line by line, up to a limit of bytes and lines. Drops the head of an interim answer.
class HeadReader {
 public:
  static constexpr std::size_t kMostBytes = 64 << 10;
  static constexpr std::size_t kMostLines = 256;

  /// Takes a line. Returns false if the rest of the head need not be read.
  bool line(std::string_view line) noexcept;
  /// Returns true if a final head has ended.
  bool ended() const noexcept { return ended_ && head_.status >= 200; }
  const AnswerHead& head() const noexcept { return head_; }

 private:
  void field(std::string_view name, std::string_view value);

  AnswerHead head_;
  std::size_t bytes_ = 0;
  std::size_t lines_ = 0;
  bool ended_ = true;
};

/// The range of a request.
struct WantedRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;               ///< inclusive
  std::optional<std::uint64_t> size{};  ///< size of the object, if it is known
  std::uint64_t version = 0;            ///< version that the object must have; 0: any
  bool gz = false;                      ///< its name is that of a gzip file
  bool by_date = false;                 ///< see AnswerHead::version
  std::string_view modified{};          ///< Last-Modified when it was found, for the error
};

enum class Verdict {
  good,       ///< the body is the requested one
  empty,      ///< the object has no bytes
  again,      ///< not the requested body; a retry may bring it
  throttled,  ///< the server throttles
  refused,    ///< 401, 403, 404, 410, 412: accepted if a retry gives it again
  changed,    ///< another version of the object
  redirect,   ///< redirected to `location`
  unusable,   ///< an answer that can't be used; a retry would not help
};

struct Judgement {
  Verdict verdict = Verdict::again;
  std::string why{};  ///< the reason, except for good and empty; without the body's first line
};

/// Judges an answer to a GET of that range by its head. A whole object in answer to a range is good
/// if the range covers all of it, even without its length.
Judgement judge(const AnswerHead& head, const WantedRange& wanted);
/// Judges an answer to a GET or HEAD without a range. `gz`: see WantedRange.
Judgement judge_whole(const AnswerHead& head, bool gz = false);
/// Returns true if the path is that of a gzip file: it ends with .gz, .tgz or .gzip.
bool is_gz_name(std::string_view path) noexcept;

/// Judges an answer to a request that writes. `etag`: the answer must have the object's ETag.
/// `bare`: a body of the answer must not be a page of HTML.
Judgement judge_write(const AnswerHead& head, bool etag, bool bare);

/// Returns true if an answer refuses the request's credentials: 401, 403, or a 400 whose body says
/// that they have expired or are unknown, as S3 does for those of a session.
bool refuses_credentials(const AnswerHead& head, std::string_view body) noexcept;

/// Returns the text of the first XML element of that name, without decoding. Empty if there is
/// none.
std::string element_of(std::string_view xml, std::string_view name);

/// Returns the message in the body of an error, printable and short: Code and Message of XML as S3
/// sends it, else the first line that is not empty, without tags.
std::string first_line(std::string_view body);

}  // namespace penstock::http
