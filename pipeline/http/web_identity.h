// Credentials in exchange for a token of another service, as pods of Kubernetes have one.
#pragma once

#include <optional>
#include <string>

#include "pipeline/http/credentials.h"

namespace penstock::http {

struct WebIdentity {
  std::string token_file;
  std::string role;
  std::string session;
};

/// Returns $AWS_WEB_IDENTITY_TOKEN_FILE, $AWS_ROLE_ARN and $AWS_ROLE_SESSION_NAME, else those of
/// the profile (web_identity_token_file, role_arn, role_session_name). Returns nothing without a
/// token file and a role.
std::optional<WebIdentity> usual_web_identity();

/// Requests credentials by AssumeRoleWithWebIdentity from AWS's STS in the usual region, or from
/// $AWS_ENDPOINT_URL_STS or $AWS_ENDPOINT_URL. Reads the token anew each time, since other programs
/// renew it. Throws Error{unavailable}, whose message does not show the token. Source:
/// https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html
LentCredentials ask_web_identity(const WebIdentity& identity, const AskService& ask);

}  // namespace penstock::http
