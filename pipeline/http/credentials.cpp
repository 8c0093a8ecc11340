#include "pipeline/http/credentials.h"

#include <ctime>
#include <utility>

#include <nlohmann/json.hpp>

#include <penstock/error.h>

#include "pipeline/http/credential_process.h"
#include "pipeline/http/web_identity.h"
#include "pipeline/io/url.h"

namespace penstock::http {
namespace {

constexpr std::int64_t kRenewBefore = 300;  // seconds
constexpr std::chrono::seconds kLongestRenewal(30);

/// Reads ISO 8601: a fraction of a second is dropped, and an offset such as +02:00, +0200 or +02 is
/// applied. Without an offset it is UTC. Returns 0 for other text.
std::int64_t unix_time_of(const std::string& text) {
  std::tm parts{};
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (end == nullptr) end = ::strptime(text.c_str(), "%Y-%m-%d %H:%M:%S", &parts);
  if (end == nullptr) return 0;
  if (*end == '.' || *end == ',') ++end;
  while (*end >= '0' && *end <= '9') ++end;
  const auto local = static_cast<std::int64_t>(::timegm(&parts));
  if (*end != '+' && *end != '-') return local;
  const int sign = *end == '+' ? 1 : -1;
  int digits = 0;
  std::int64_t offset = 0;
  for (++end; *end != '\0' && digits < 4; ++end)
    if (*end >= '0' && *end <= '9') {
      offset = 10 * offset + (*end - '0');
      ++digits;
    } else if (*end != ':') {
      return 0;
    }
  if (digits == 2) offset *= 100;
  if (digits != 2 && digits != 4) return 0;
  return local - sign * (offset / 100 * 3600 + offset % 100 * 60);
}

}  // namespace

LentCredentials lent_credentials(AwsCredentials credentials, const std::string& expiration) {
  if (credentials.access_key.empty() || credentials.secret_key.empty())
    throw Error(ErrorCode::unavailable, "the credentials service returned no credentials");
  return {std::move(credentials), unix_time_of(expiration)};
}

LentCredentials parse_lent_credentials(std::string_view text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  const auto field = [&](const char* name) {
    return json.is_object() && json.contains(name) && json[name].is_string()
               ? json[name].get<std::string>()
               : std::string();
  };
  std::string token = field("Token");
  if (token.empty()) token = field("SessionToken");
  return lent_credentials({field("AccessKeyId"), field("SecretAccessKey"), std::move(token)},
                          field("Expiration"));
}

namespace {

std::optional<AwsCredentials> keys_of_environment() {
  AwsCredentials found{variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"),
                       variable("AWS_SESSION_TOKEN")};
  if (found.access_key.empty() || found.secret_key.empty()) return {};
  return found;
}

std::optional<AwsCredentials> keys_of_profile() {
  AwsCredentials found{of_profile("aws_access_key_id"), of_profile("aws_secret_access_key"),
                       of_profile("aws_session_token")};
  if (found.access_key.empty() || found.secret_key.empty()) return {};
  return found;
}

/// Throws for a profile whose credentials boto3 gets in a way that is not supported here, and says
/// how to get them.
[[noreturn]] void refuse_profile(const std::string& key) {
  const std::string profile = profile_name();
  throw Error(ErrorCode::unavailable,
              key + " of profile " + profile +
                  " is not supported: add a profile with credential_process = aws configure "
                  "export-credentials --profile " +
                  profile + " --format process, and select it by AWS_PROFILE");
}

/// Throws if the profile takes a role with the credentials of another profile. Its own keys, if it
/// has any, are not those of the role.
void refuse_role() {
  if (of_profile("role_arn").empty()) return;
  for (const char* key : {"source_profile", "credential_source"})
    if (!of_profile(key).empty()) refuse_profile("role_arn with " + std::string(key));
}

void refuse_login() {
  for (const char* key : {"sso_session", "sso_start_url", "sso_account_id", "login_session"})
    if (!of_profile(key).empty()) refuse_profile(key);
}

/// Returns the headers that a metadata service of version 2 demands; none if it knows only version
/// 1, or if the answer to the request for a token does not come back to a container.
std::vector<std::string> metadata_headers(const std::string& service, const AskService& ask) {
  HttpRequest request;
  request.timeout = std::chrono::milliseconds(1000);
  request.method = "PUT";
  request.url = service + "/latest/api/token";
  request.headers = {"X-aws-ec2-metadata-token-ttl-seconds: 21600"};
  try {
    return {"X-aws-ec2-metadata-token: " + without_blanks(ask(request))};
  } catch (const Error&) {
    if (variable("AWS_EC2_METADATA_V1_DISABLED") == "true" ||
        of_profile("ec2_metadata_v1_disabled") == "true")
      throw;
    return {};
  }
}

/// Returns the credentials of the container's service, else of the instance's.
std::optional<LentCredentials> lent_by_machine(const AskService& ask) {
  HttpRequest request;
  request.timeout = std::chrono::milliseconds(5000);
  std::string container = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  const std::string relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  if (container.empty() && !relative.empty()) container = "http://169.254.170.2" + relative;
  if (!container.empty()) {
    request.url = container;
    std::string token = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    const std::string file = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    if (!file.empty()) token = without_blanks(small_file(file));
    if (!token.empty()) request.headers.push_back("Authorization: " + token);
    return parse_lent_credentials(ask(request));
  }
  if (variable("AWS_EC2_METADATA_DISABLED") == "true") return {};
  std::string service = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (service.empty()) service = of_profile("ec2_metadata_service_endpoint");
  if (service.empty()) service = "http://169.254.169.254";
  while (service.ends_with('/')) service.pop_back();
  request.timeout = std::chrono::milliseconds(1000);
  request.headers = metadata_headers(service, ask);
  const std::string roles = service + "/latest/meta-data/iam/security-credentials/";
  request.url = roles;
  std::string role = ask(request);
  role = without_blanks(role.substr(0, role.find('\n')));
  request.url = roles + percent_encoded(role, false);
  return parse_lent_credentials(ask(request));
}

}  // namespace

std::optional<LentCredentials> find_aws_credentials(const AskService& ask) {
  if (auto keys = keys_of_environment()) return LentCredentials{*std::move(keys), 0};
  if (const auto identity = usual_web_identity()) return ask_web_identity(*identity, ask);
  refuse_role();
  if (auto keys = keys_of_profile()) return LentCredentials{*std::move(keys), 0};
  const std::string process = of_profile("credential_process");
  if (!process.empty()) return run_credential_process(process);
  refuse_login();
  return lent_by_machine(ask);
}

std::optional<LentCredentials> find_gs_credentials() {
  AwsCredentials found{variable("GS_ACCESS_KEY_ID"), variable("GS_SECRET_ACCESS_KEY"), {}};
  if (found.access_key.empty() || found.secret_key.empty()) return {};
  return LentCredentials{std::move(found), 0};
}

CredentialChain::CredentialChain(bool anonymous, AskService ask)
    : CredentialChain(
          anonymous, [ask = std::move(ask)] { return find_aws_credentials(ask); },
          "there are no credentials for S3 in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, web "
          "identity, a profile, or a container's or an instance's service (--s3-anonymous reads "
          "public data)") {}

CredentialChain::CredentialChain(bool anonymous, FindCredentials find, std::string nowhere)
    : anonymous_(anonymous), find_(std::move(find)), nowhere_(std::move(nowhere)) {}

AwsCredentials CredentialChain::get(std::int64_t unix_time) {
  if (anonymous_) return {};
  const auto until = std::chrono::steady_clock::now() + kLongestRenewal;
  {
    const MutexLock lock(mutex_);
    while (true) {
      const bool valid = kept_ && (kept_->expires == 0 || kept_->expires > unix_time);
      if (valid && (kept_->expires == 0 || kept_->expires - unix_time > kRenewBefore || renewing_))
        return kept_->credentials;
      if (!renewing_) break;
      if (std::chrono::steady_clock::now() >= until)
        throw Error(ErrorCode::unavailable, "timed out waiting for credentials");
      changed_.wait_until(mutex_, until);
    }
    renewing_ = true;
  }
  std::optional<LentCredentials> found;
  std::string why;
  try {
    found = find_();
  } catch (const Error& error) {
    why = ": " + error.cause();
  } catch (...) {
    renewed({});
    throw;
  }
  renewed(std::move(found));
  const MutexLock lock(mutex_);
  if (kept_ && (kept_->expires == 0 || kept_->expires > unix_time)) return kept_->credentials;
  throw Error(ErrorCode::unavailable, nowhere_ + why);
}

void CredentialChain::renewed(std::optional<LentCredentials> found) noexcept {
  const MutexLock lock(mutex_);
  if (found) {
    kept_ = std::move(found);
    renewed_at_ = std::chrono::steady_clock::now();
  }
  renewing_ = false;
  changed_.notify_all();
}

void CredentialChain::refused(std::chrono::steady_clock::time_point sent) {
  const MutexLock lock(mutex_);
  // Many requests under way are refused at once, some after others got new credentials.
  if (kept_ && kept_->expires != 0 && sent >= renewed_at_) kept_.reset();
}

}  // namespace penstock::http
