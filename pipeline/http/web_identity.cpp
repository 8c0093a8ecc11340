#include "pipeline/http/web_identity.h"

#include <penstock/error.h>

#include "pipeline/http/aws_settings.h"
#include "pipeline/io/secrets.h"
#include "pipeline/io/url.h"

namespace penstock::http {
namespace {

std::string sts_endpoint() {
  if (std::string value = usual_endpoint("sts"); !value.empty()) return value;
  const std::string region = usual_region();
  return "https://sts." + region + ".amazonaws.com" + (region.starts_with("cn-") ? ".cn" : "");
}

/// The text of the first element of that name. Keys and tokens need no entities.
std::string sts_field(const std::string& xml, const std::string& name) {
  const std::string open = '<' + name + '>';
  const std::size_t at = xml.find(open);
  if (at == xml.npos) return {};
  const std::size_t from = at + open.size();
  return xml.substr(from, xml.find('<', from) - from);
}

}  // namespace

std::optional<WebIdentity> usual_web_identity() {
  WebIdentity identity{variable("AWS_WEB_IDENTITY_TOKEN_FILE"), variable("AWS_ROLE_ARN"),
                       variable("AWS_ROLE_SESSION_NAME")};
  if (identity.token_file.empty() || identity.role.empty())
    identity = {of_profile("web_identity_token_file"), of_profile("role_arn"),
                of_profile("role_session_name")};
  if (identity.token_file.empty() || identity.role.empty()) return {};
  if (identity.session.empty()) identity.session = "penstock";
  return identity;
}

LentCredentials ask_web_identity(const WebIdentity& identity, const AskService& ask) {
  const std::string token = without_blanks(small_file(identity.token_file));
  if (token.empty())
    throw Error(ErrorCode::unavailable, "there is no web identity token in " + identity.token_file);
  HttpRequest request;
  request.method = "POST";
  request.url = sts_endpoint();
  if (request.url.find('/', request.url.find("//") + 2) == request.url.npos) request.url += '/';
  request.timeout = std::chrono::milliseconds(10'000);
  request.headers = {"Content-Type: application/x-www-form-urlencoded", "Accept: text/xml"};
  request.body = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=" +
                 percent_encoded(identity.role, false) +
                 "&RoleSessionName=" + percent_encoded(identity.session, false) +
                 "&WebIdentityToken=" + percent_encoded(token, false);
  std::string xml;
  try {
    xml = ask(request);
  } catch (const Error& error) {
    throw Error(ErrorCode::unavailable,
                "web identity is refused: " + scrubbed(error.cause(), {token}));
  }
  return lent_credentials({sts_field(xml, "AccessKeyId"), sts_field(xml, "SecretAccessKey"),
                           sts_field(xml, "SessionToken")},
                          sts_field(xml, "Expiration"));
}

}  // namespace penstock::http
