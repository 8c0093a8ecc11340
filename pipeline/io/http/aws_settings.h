// The settings of AWS's own programs, from the environment and from files.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace penstock::http {

/// The sections of ~/.aws/credentials and ~/.aws/config: their names, with keys and values.
/// "profile x" in the latter file is "x". Other lines are skipped.
using ProfileFile = std::map<std::string, std::map<std::string, std::string>>;
ProfileFile parse_profile_file(std::string_view text);

/// Returns a variable of the environment; empty if it is not set.
std::string variable(const char* name);
/// Returns a value of the selected profile ($AWS_PROFILE): from the credentials file, else from the
/// config file.
std::string of_profile(const std::string& key);
/// Returns the first MiB of a file; empty if it can't be read.
std::string small_file(const std::string& path);
std::string without_blanks(std::string_view text);

/// Returns the configured region: $AWS_REGION, $AWS_DEFAULT_REGION, the profile's, else us-east-1.
std::string usual_region();
/// Returns the configured endpoint: $AWS_ENDPOINT_URL_S3, $AWS_ENDPOINT_URL, the profile's
/// endpoint_url, else empty.
std::string usual_endpoint();

}  // namespace penstock::http
