// The settings of AWS's own programs, from the environment and from files.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace penstock::http {

/// The sections of ~/.aws/credentials and ~/.aws/config: their names, with keys in small letters
/// and values. "profile x" of the latter file is "x". A key below "s3 =" is "s3.key". Indentation,
/// quotes and comments are those of Python's configparser, which reads these files for boto3.
using ProfileFile = std::map<std::string, std::map<std::string, std::string>>;
ProfileFile parse_profile_file(std::string_view text);

/// Returns a variable of the environment; empty if it is not set.
std::string variable(const char* name);
/// Returns the name of the selected profile: $AWS_PROFILE, $AWS_DEFAULT_PROFILE, else "default".
/// Throws Error{invalid_argument} if the two differ.
std::string profile_name();
/// Returns a value of the selected profile: from the credentials file, else from the config file.
/// Throws Error{invalid_argument} if a variable names a profile that neither file has.
std::string of_profile(const std::string& key);
/// Returns the first MiB of a file; empty if it can't be read.
std::string small_file(const std::string& path);
std::string without_blanks(std::string_view text);

/// Returns the configured region: $AWS_REGION, $AWS_DEFAULT_REGION, the profile's, else us-east-1.
std::string usual_region();
/// Returns the configured endpoint of a service, "s3" or "sts"; empty if there is none. The order:
/// $AWS_ENDPOINT_URL_S3, $AWS_ENDPOINT_URL, the profile's `services` section. Then come the key
/// below the profile's "s3 =" and the profile's endpoint_url.
/// $AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true, or the profile's key of that name, ignores them all.
///
/// Throws Error{invalid_argument} if none is configured, but another variable or key seems to name
/// an endpoint. A request signed with a private store's key must not go to Amazon. The settings for
/// FIPS, dual-stack and accelerated endpoints are errors, too, unless an endpoint is configured.
std::string usual_endpoint(const std::string& service);
/// Returns the file of certificates for S3: $AWS_CA_BUNDLE, the profile's ca_bundle, else empty.
std::string usual_ca_file();

}  // namespace penstock::http
