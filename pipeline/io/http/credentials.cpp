#include "pipeline/io/http/credentials.h"

#include <ctime>
#include <utility>

#include <nlohmann/json.hpp>

#include <penstock/error.h>

#include "pipeline/io/http/credential_process.h"
#include "pipeline/io/http/url.h"
#include "pipeline/io/http/web_identity.h"

namespace penstock::http {
namespace {

constexpr std::int64_t kRenewBefore = 300;  // seconds
constexpr std::chrono::seconds kLongestRenewal(30);

std::int64_t unix_time_of(const std::string& text) {
  std::tm parts{};
  const char* const end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  return end == nullptr ? 0 : static_cast<std::int64_t>(::timegm(&parts));
}

}  // namespace

LentCredentials lent_credentials(AwsCredentials credentials, const std::string& expiration) {
  if (credentials.access_key.empty() || credentials.secret_key.empty())
    throw Error(ErrorCode::unavailable, "the service of credentials answers without any");
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
  if (service.empty()) service = "http://169.254.169.254";
  while (service.ends_with('/')) service.pop_back();
  request.timeout = std::chrono::milliseconds(1000);
  request.method = "PUT";
  request.url = service + "/latest/api/token";
  request.headers = {"X-aws-ec2-metadata-token-ttl-seconds: 21600"};
  const std::string token = without_blanks(ask(request));
  request.method = "GET";
  request.headers = {"X-aws-ec2-metadata-token: " + token};
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
  if (auto keys = keys_of_profile()) return LentCredentials{*std::move(keys), 0};
  const std::string process = of_profile("credential_process");
  if (!process.empty()) return run_credential_process(process);
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
          "there are no credentials for S3: neither AWS_ACCESS_KEY_ID and "
          "AWS_SECRET_ACCESS_KEY, nor web identity, nor a profile, nor a container's or "
          "an instance's service has any (--s3-anonymous reads public data)") {}

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
        throw Error(ErrorCode::unavailable, "credentials take too long to come");
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
  if (found) kept_ = std::move(found);
  renewing_ = false;
  changed_.notify_all();
}

void CredentialChain::refused() {
  const MutexLock lock(mutex_);
  if (kept_ && kept_->expires != 0) kept_.reset();
}

}  // namespace penstock::http
