// AWS Signature Version 4. Source:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pipeline/http/transport.h"

namespace penstock::http {

struct AwsCredentials {
  std::string access_key;
  std::string secret_key;
  std::string session_token;  ///< empty: a long-term key

  bool anonymous() const noexcept { return access_key.empty(); }
};

/// The scope of a signature. No field holds a secret.
struct SigningScope {
  std::string service = "s3";
  std::string region;
  std::int64_t unix_time = 0;
};

struct SignedRequest {
  std::string method = "GET";
  std::string path;   ///< as sent: encoded once
  std::string query;  ///< as sent, without its '?'
  /// All signed headers, as they are sent; must include "host". Names may have any case.
  std::vector<std::pair<std::string, std::string>> headers;
  std::string payload_sha256;  ///< in hex, or UNSIGNED-PAYLOAD
};

/// Returns a time as "20150830T123600Z".
std::string amz_date(std::int64_t unix_time);
/// The hash of an empty body, in hex.
inline constexpr const char* kEmptySha256 =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Returns a digest in lowercase hex, as signatures need it.
std::string hex_of(const Sha256& digest);

/// Steps 1 and 2 of signing: the canonical request, and the string to sign.
std::string canonical_request(const SignedRequest& request);
std::string string_to_sign(const RemoteModule& module, const SigningScope& scope,
                           const std::string& canonical);
/// Returns the value of the header Authorization.
std::string authorization(const RemoteModule& module, const AwsCredentials& credentials,
                          const SigningScope& scope, const SignedRequest& request);

}  // namespace penstock::http
