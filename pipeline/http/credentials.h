// The sources of S3 credentials, in the order in which AWS's own programs search them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <penstock/internal/thread_annotations.h>

#include "pipeline/http/aws_settings.h"
#include "pipeline/http/sigv4.h"

namespace penstock::http {

/// Temporary or lasting credentials from a service or a command.
struct LentCredentials {
  AwsCredentials credentials;
  std::int64_t expires = 0;  ///< unix time; 0: never
};
/// Parses JSON with AccessKeyId, SecretAccessKey, Token or SessionToken, and Expiration. Throws
/// Error{unavailable}, whose message does not show the answer.
LentCredentials parse_lent_credentials(std::string_view json);
/// Makes the same from its parts; `expiration` is in ISO 8601.
LentCredentials lent_credentials(AwsCredentials credentials, const std::string& expiration);

/// Sends a request to a service on this machine or near it. Returns the body or throws.
using AskService = std::function<std::string(const HttpRequest& request)>;

/// Searches, in this order: $AWS_ACCESS_KEY_ID…; web identity; the profile's keys; its
/// credential_process; the container's service; the instance's service (IMDS). Returns nothing if
/// none of them is configured. Throws Error{unavailable}, also for a profile with a role of another
/// profile, or with single sign-on, whose credentials only a command can get.
std::optional<LentCredentials> find_aws_credentials(const AskService& ask);
/// Returns the HMAC keys of Google's storage: $GS_ACCESS_KEY_ID, $GS_SECRET_ACCESS_KEY.
std::optional<LentCredentials> find_gs_credentials();
using FindCredentials = std::function<std::optional<LentCredentials>()>;

/// Keeps the credentials that were found. Expiring ones are renewed five minutes before they end,
/// by one thread, while others use the current ones. Thread-safe.
class CredentialChain {
 public:
  /// Uses AWS's sources.
  CredentialChain(bool anonymous, AskService ask);
  /// `nowhere`: the error message if nothing was found.
  CredentialChain(bool anonymous, FindCredentials find, std::string nowhere);

  /// Returns the credentials. Throws Error{unavailable} that names the places that were searched.
  AwsCredentials get(std::int64_t unix_time) EXCLUDES(mutex_);
  /// Takes note that a server refused the credentials of a request that was sent then. Those of
  /// services and commands are requested again, unless that has happened since.
  void refused(std::chrono::steady_clock::time_point sent) EXCLUDES(mutex_);

 private:
  void renewed(std::optional<LentCredentials> found) noexcept EXCLUDES(mutex_);

  const bool anonymous_;
  const FindCredentials find_;
  const std::string nowhere_;
  Mutex mutex_;
  CondVar changed_;
  bool renewing_ GUARDED_BY(mutex_) = false;
  std::optional<LentCredentials> kept_ GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point renewed_at_ GUARDED_BY(mutex_);
};

}  // namespace penstock::http
