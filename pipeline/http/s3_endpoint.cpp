#include "pipeline/http/s3_endpoint.h"

#include <algorithm>

#include <penstock/error.h>

namespace penstock::http {
namespace {

constexpr std::size_t kMostBuckets = 10'000;

std::string aws_host(const std::string& region) {
  const bool china = region.starts_with("cn-");
  return "s3." + region + ".amazonaws.com" + (china ? ".cn" : "");
}

bool is_region(const std::string& name) noexcept {
  return !name.empty() && name.size() <= 40 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

std::string without_slashes_at_end(std::string path) {
  while (path.ends_with('/')) path.pop_back();
  return path;
}

bool is_virtual(const std::string& addressing, bool of_aws) {
  if (addressing.empty() || addressing == "auto") return of_aws;
  if (addressing != "virtual" && addressing != "path")
    throw Error(ErrorCode::invalid_argument,
                "the addressing style of S3 is auto, virtual or path, not " + addressing);
  return addressing == "virtual";
}

/// True for IPv4 and IPv6 addresses, which have no names of buckets in front.
bool is_address(const std::string& host) noexcept {
  return host.find(':') != host.npos || host.find_first_not_of("0123456789.") == host.npos;
}

}  // namespace

S3Endpoint::S3Endpoint(const std::string& endpoint, std::string region,
                       const std::string& addressing)
    : of_aws_(endpoint.empty()),
      virtual_(is_virtual(addressing, of_aws_)),
      region_(std::move(region)),
      endpoint_(parse_url(of_aws_ ? "https://" + aws_host(region_) : endpoint)) {
  if (virtual_ && is_address(endpoint_.host))
    throw Error(ErrorCode::invalid_argument,
                "the endpoint of S3 is an address, " + endpoint_.host +
                    ", which can't have the bucket's name in front: the addressing style must be "
                    "path");
}

bool S3Endpoint::bucket_in_host(const std::string& bucket) const noexcept {
  // No certificate matches a host name with a dot in the bucket's part.
  return virtual_ && (bucket.find('.') == bucket.npos || endpoint_.scheme != "https");
}

Url S3Endpoint::url_of(const std::string& bucket, const std::string& key) const {
  Url url = endpoint_;
  if (of_aws_) url.host = aws_host(region_of_bucket(bucket));
  std::string base = without_slashes_at_end(url.path);
  if (bucket_in_host(bucket)) {
    url.host = bucket + '.' + url.host;
  } else {
    base += '/' + bucket;
  }
  url.path = base + '/' + percent_encoded(key, true);
  return url;
}

std::string S3Endpoint::bucket_of(const Url& url) const {
  const std::size_t dot = url.host.find(".s3.");
  if (of_aws_ && dot != url.host.npos) return url.host.substr(0, dot);
  if (const std::string end = '.' + endpoint_.host; virtual_ && url.host.ends_with(end))
    return url.host.substr(0, url.host.size() - end.size());
  const std::size_t from =
      std::min(url.path.size(), without_slashes_at_end(endpoint_.path).size() + 1);
  return url.path.substr(from, url.path.find('/', from) - from);
}

std::string S3Endpoint::region_of_bucket(const std::string& bucket) const {
  const MutexLock lock(mutex_);
  const auto found = regions_.find(bucket);
  return found != regions_.end() ? found->second : region_;
}

std::string S3Endpoint::region_of(const Url& url) const {
  return region_of_bucket(bucket_of(url));
}

std::optional<Url> S3Endpoint::moved(const Url& url, const std::string& region) {
  if (!is_region(region)) return {};
  const std::string bucket = bucket_of(url);
  const std::string before = region_of_bucket(bucket);
  {
    const MutexLock lock(mutex_);
    if (regions_.size() >= kMostBuckets) regions_.clear();
    regions_[bucket] = region;
  }
  Url there = url;
  if (of_aws_)
    there.host = (url.host.find(".s3.") != url.host.npos ? bucket + '.' : "") + aws_host(region);
  // Of another service only the signature tells, which the next request has anew.
  if (there.host == url.host && before == region) return {};
  return there;
}

}  // namespace penstock::http
