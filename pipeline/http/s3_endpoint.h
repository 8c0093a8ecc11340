// The addresses and regions of buckets.
#pragma once

#include <map>
#include <optional>
#include <string>

#include <penstock/internal/thread_annotations.h>

#include "pipeline/io/url.h"

namespace penstock::http {

/// Knows the address of an S3 service, and learns the regions of buckets from answers. Thread-safe.
class S3Endpoint {
 public:
  /// `endpoint` empty: AWS's. `addressing`: see RemoteOptions::s3_addressing. Throws as parse_url,
  /// and Error{invalid_argument} for another word, and for virtual hosts of an IP address.
  S3Endpoint(const std::string& endpoint, std::string region, const std::string& addressing = {});

  /// Returns true if the bucket is part of the host name.
  bool bucket_in_host(const std::string& bucket) const noexcept;
  Url url_of(const std::string& bucket, const std::string& key) const EXCLUDES(mutex_);
  /// Returns the region for which requests to a URL are signed.
  std::string region_of(const Url& url) const EXCLUDES(mutex_);
  /// Takes note that, according to a server, the bucket of `url` is in that region. Returns the URL
  /// to ask then, or nothing if the request went to that region already.
  std::optional<Url> moved(const Url& url, const std::string& region) EXCLUDES(mutex_);

 private:
  std::string bucket_of(const Url& url) const;
  std::string region_of_bucket(const std::string& bucket) const EXCLUDES(mutex_);

  const bool of_aws_;
  const bool virtual_;
  const std::string region_;
  const Url endpoint_;  // for AWS: the region's endpoint
  mutable Mutex mutex_;
  // Regions of buckets that are not in `region_`.
  std::map<std::string, std::string> regions_ GUARDED_BY(mutex_);
};

}  // namespace penstock::http
