#include "pipeline/http/s3_files.h"

#include <algorithm>
#include <ctime>

#include <penstock/error.h>

#include "pipeline/http/list_xml.h"
#include "pipeline/http/patience.h"
#include "pipeline/http/upload.h"
#include "pipeline/io/pattern.h"

namespace penstock::http {
namespace {

constexpr std::size_t kMostPageBytes = 16 << 20;
constexpr std::size_t kMostListed = 10'000'000;
/// A list continues as long as names come: so many in each RemoteOptions::deadline, and of each
/// page, but for the first pages.
constexpr std::size_t kLeastInTime = 1000;
constexpr std::size_t kLeastOfPage = 32;
constexpr std::size_t kFirstPages = 1000;
constexpr std::string_view kWildcards = "*?[";

/// AWS's rules: 3 to 63 lowercase letters, digits, '-' and '.'. Other services permit more.
bool is_bucket(std::string_view name) noexcept {
  return !name.empty() && name.size() <= 255 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
  });
}

}  // namespace

S3Path parse_s3_path(const std::string& path) {
  S3Path parsed;
  std::size_t slash = path.size();
  if (is_s3(path) || is_gs(path)) {
    const std::size_t begin = path.find("://") + 3;
    slash = std::min(path.find('/', begin), path.size());
    parsed.bucket = path.substr(begin, slash - begin);
  }
  if (!is_bucket(parsed.bucket))
    throw Error(ErrorCode::invalid_argument,
                "this names no bucket: " + std::string(is_gs(path) ? "gs" : "s3") + "://BUCKET/KEY",
                {.shard = path});
  if (slash < path.size()) parsed.key = path.substr(slash + 1);
  return parsed;
}

void S3Signer::authorize(HttpRequest& request, const Url& url) {
  const auto now = static_cast<std::int64_t>(std::time(nullptr));
  const AwsCredentials credentials = credentials_->get(now);
  if (credentials.anonymous()) return;
  if (requester_pays_) request.headers.emplace_back("x-amz-request-payer: requester");
  const std::string hash =
      request.sent().empty() ? kEmptySha256 : hex_of(remote_module().sha256(request.sent()));
  std::vector<std::string> added{"x-amz-content-sha256: " + hash, "x-amz-date: " + amz_date(now)};
  if (!credentials.session_token.empty())
    added.push_back("x-amz-security-token: " + credentials.session_token);
  request.headers.insert(request.headers.end(), added.begin(), added.end());
  const std::string origin = url.origin();
  SignedRequest what{request.method, url.path, url.query, {}, hash};
  what.headers = {{"host", origin.substr(origin.find("//") + 2)}};
  for (const std::string& header : request.headers)
    if (header.starts_with("x-amz-") || header.starts_with("Content-MD5:"))
      what.headers.emplace_back(header.substr(0, header.find(':')),
                                header.substr(header.find(':') + 2));
  const SigningScope scope{"s3", endpoint_->region_of(url), now};
  request.headers.push_back("Authorization: " +
                            authorization(remote_module(), credentials, scope, what));
}

Url S3FileSystem::url_of(const std::string& path) const {
  const S3Path parsed = parse_s3_path(path);
  if (parsed.key.empty())
    throw Error(ErrorCode::not_found, "this is a bucket, not an object", {.shard = path});
  return endpoint_->url_of(parsed.bucket, parsed.key);
}

ObjectPlace S3FileSystem::place_of(const std::string& path) const {
  url_of(path);  // throws if it is no object's
  return {client_ptr(), path, [endpoint = endpoint_, parsed = parse_s3_path(path)] {
            return endpoint->url_of(parsed.bucket, parsed.key);
          }};
}

std::unique_ptr<WritableFile> S3FileSystem::create(const std::string& path) {
  ObjectPlace place = place_of(path);
  if (place.path.ends_with('/'))
    throw Error(ErrorCode::invalid_argument, "can't write: this names a folder, not an object",
                {.shard = path});
  unpin(path);
  return std::make_unique<Upload>(std::move(place));
}

void S3FileSystem::remove(const std::string& path) {
  unpin(path);
  ObjectWrite(place_of(path), {.method = "DELETE", .also = {404}}).perform();
}

std::vector<std::string> S3FileSystem::list_prefix(const S3Path& prefix, std::size_t most) {
  const std::string bucket = scheme_ + "://" + prefix.bucket + '/';
  std::vector<std::string> found;
  std::string token;
  Patience patience(client().options());
  std::size_t in_time = 0;  // names that there were when it began
  std::size_t pages = 0;
  do {
    std::string query =
        token.empty() ? "" : "continuation-token=" + percent_encoded(token, false) + '&';
    query += "list-type=2";
    if (most > 0) query += "&max-keys=" + std::to_string(most);
    Url url = endpoint_->url_of(prefix.bucket, "");  // its region may be known by now
    if (!endpoint_->bucket_in_host(prefix.bucket) && url.path.ends_with('/')) url.path.pop_back();
    url.query = query + "&prefix=" + percent_encoded(prefix.key, false);
    ListPage page;
    const std::string shown = bucket + prefix.key;
    try {
      page = parse_list_page(client().get_whole(shown, url, kMostPageBytes));
    } catch (const Error& error) {
      throw Error(error.code(), "can't list: " + error.cause(), {.shard = shown});
    }
    for (ListedObject& object : page.objects) {
      if (object.key.ends_with('/')) continue;  // stands for a folder
      PinnedObject pin{bucket + object.key, endpoint_->url_of(prefix.bucket, object.key), {}, {}};
      AnswerHead head;
      head.etag = std::move(object.etag);
      // In the form of answers, even if a list leaves out the quotes.
      if (!head.etag.empty() && head.etag.find('"') == head.etag.npos)
        head.etag = '"' + head.etag + '"';
      pin.info.size = object.size;
      pin.info.inode = head.version();
      pin.info.mtime_ns = static_cast<std::int64_t>(pin.info.inode);
      pin.etag = head.strong_etag();
      found.push_back(pin.path);
      // By its date it is known only to answers.
      if (pin.info.inode != 0 && !client().options().trust_dates) pin_listed(std::move(pin));
      if (found.size() > kMostListed)
        throw Error(ErrorCode::out_of_range, "there are more than ten million objects",
                    {.shard = shown});
    }
    if (page.truncated && page.next_token == token)
      throw Error(ErrorCode::data_loss, "can't list: the list goes in circles", {.shard = shown});
    token = page.truncated ? page.next_token : "";
    if (found.size() >= in_time + kLeastInTime) {
      in_time = found.size();
      patience.restart();
    }
    if (!token.empty() && (Patience::Clock::now() >= patience.deadline() ||
                           ++pages > kFirstPages + found.size() / kLeastOfPage))
      throw Error(ErrorCode::data_loss,
                  "can't list: the list does not end: its " + std::to_string(pages) +
                      " pages have " + std::to_string(found.size()) + " names",
                  {.shard = shown});
  } while (!token.empty() && (most == 0 || found.size() < most));
  std::sort(found.begin(), found.end());
  return found;
}

bool S3FileSystem::is_directory(const std::string& path) {
  S3Path folder = parse_s3_path(path);
  if (folder.key.find_first_of(kWildcards) != folder.key.npos) return false;
  if (!folder.key.empty() && !folder.key.ends_with('/')) folder.key += '/';
  return !list_prefix(folder, 2).empty();
}

std::vector<std::string> S3FileSystem::list(const std::string& path) {
  S3Path folder = parse_s3_path(path);
  if (!folder.key.empty() && !folder.key.ends_with('/')) folder.key += '/';
  std::vector<std::string> found = list_prefix(folder, 0);
  if (found.empty())
    throw Error(ErrorCode::not_found, "there are no objects below it", {.shard = path});
  return found;
}

std::vector<std::string> S3FileSystem::glob(const std::string& pattern, bool hidden) {
  S3Path prefix = parse_s3_path(pattern);
  const std::size_t wild = prefix.key.find_first_of(kWildcards);
  if (wild == prefix.key.npos) return {pattern};
  prefix.key.resize(wild);
  std::vector<std::string> found = list_prefix(prefix, 0);
  // As for local files: the key may really have a bracket.
  if (std::ranges::binary_search(found, pattern)) return {pattern};
  std::erase_if(found, [&](const std::string& name) { return !matches(pattern, name, hidden); });
  return found;
}

}  // namespace penstock::http
