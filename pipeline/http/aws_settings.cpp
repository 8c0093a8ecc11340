#include "pipeline/http/aws_settings.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <vector>

#include <penstock/error.h>

#include "pipeline/http/credential_process.h"

extern char** environ;

namespace penstock::http {
namespace {

constexpr std::size_t kMostFileBytes = 1 << 20;
constexpr std::string_view kBlanks = " \t\r\f\v";

std::string aws_file(const char* named_by, const char* usual) {
  std::string path = variable(named_by);
  if (path.starts_with("~/") && !variable("HOME").empty()) path = variable("HOME") + path.substr(1);
  if (path.empty() && !variable("HOME").empty()) path = variable("HOME") + "/.aws/" + usual;
  return path;
}

/// The credentials file and the config file, in the order in which values are looked up.
std::array<std::string, 2> aws_files() {
  return {aws_file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
          aws_file("AWS_CONFIG_FILE", "config")};
}

std::string lower(std::string_view text) {
  std::string small(text);
  for (char& c : small) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return small;
}

/// Returns the name of a section: that of `profile NAME`, which may be in quotes, else the text.
std::string section_name(std::string_view header) {
  const std::string text = without_blanks(header);
  std::vector<std::string> words;
  try {
    words = command_words(text);
  } catch (const Error&) {  // an open quote is part of the name
    return text;
  }
  if (words.size() == 2 && words[0] == "profile") return words[1];
  if (words.size() == 1) return words[0];
  // "services x" and "sso-session x" keep their kind.
  if (words.size() == 2) return words[0] + ' ' + words[1];
  return text.starts_with("profile ") ? without_blanks(std::string_view(text).substr(8)) : text;
}

/// Reads sections line by line as Python's configparser does.
class ProfileParser {
 public:
  void line(std::string_view raw) {
    const std::size_t indent = raw.find_first_not_of(kBlanks);
    if (indent == raw.npos) return;
    const std::string text = without_blanks(raw);
    if (text.front() == '#' || text.front() == ';') return;
    // Deeper than the key before it: a part of that key's value.
    if (section_ != nullptr && !key_.empty() && indent > indent_) return nested(text);
    indent_ = indent;
    key_.clear();
    if (text.front() == '[') {
      const std::size_t end = text.rfind(']');
      section_ = &file_[section_name(std::string_view(text).substr(1, end - 1))];
      return;
    }
    const std::size_t delimiter = text.find_first_of("=:");
    if (section_ == nullptr || delimiter == text.npos) return;
    key_ = lower(without_blanks(std::string_view(text).substr(0, delimiter)));
    (*section_)[key_] = without_blanks(std::string_view(text).substr(delimiter + 1));
  }
  ProfileFile take() { return std::move(file_); }

 private:
  void nested(const std::string& text) {
    const std::size_t equals = text.find('=');
    if (equals == text.npos) return;
    (*section_)[key_ + '.' + lower(without_blanks(std::string_view(text).substr(0, equals)))] =
        without_blanks(std::string_view(text).substr(equals + 1));
  }

  ProfileFile file_;
  std::map<std::string, std::string>* section_ = nullptr;
  std::string key_;  // the last key of the section; empty: none yet
  std::size_t indent_ = 0;
};

/// Returns a value of a section: from the credentials file, else from the config file.
std::string of_section(const std::string& name, const std::string& key) {
  for (const std::string& path : aws_files()) {
    if (path.empty()) continue;
    const ProfileFile file = parse_profile_file(small_file(path));
    const auto section = file.find(name);
    if (section == file.end()) continue;
    const auto value = section->second.find(key);
    if (value != section->second.end()) return value->second;
  }
  return {};
}

bool is_section(const std::string& name) {
  return std::ranges::any_of(aws_files(), [&](const std::string& path) {
    return !path.empty() && parse_profile_file(small_file(path)).contains(name);
  });
}

[[noreturn]] void refuse_setting(const std::string& name, const std::string& value) {
  throw Error(ErrorCode::invalid_argument,
              name + " = " + value +
                  " seems to name an endpoint, but is not supported; without one, requests would "
                  "go to Amazon: set AWS_ENDPOINT_URL_S3 or --s3-endpoint, or "
                  "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true if Amazon is meant");
}

/// Keys and, in capitals with "AWS_" in front, variables with "endpoint" in their names that say
/// nothing about where S3 is.
bool is_harmless(const std::string& key) {
  constexpr std::array<std::string_view, 12> kHarmless{"ignore_configured_endpoint_urls",
                                                       "ec2_metadata_service_endpoint",
                                                       "ec2_metadata_service_endpoint_mode",
                                                       "sts_regional_endpoints",
                                                       "s3_us_east_1_regional_endpoint",
                                                       "us_east_1_regional_endpoint",
                                                       "endpoint_discovery_enabled",
                                                       "enable_endpoint_discovery",
                                                       "account_id_endpoint_mode",
                                                       "use_dualstack_endpoint",
                                                       "use_fips_endpoint",
                                                       "use_accelerate_endpoint"};
  const std::size_t dot = key.find('.');
  const std::string_view last = std::string_view(key).substr(dot == key.npos ? 0 : dot + 1);
  return std::ranges::find(kHarmless, last) != kHarmless.end();
}

/// Throws if a variable that other programs read for S3's endpoint is set.
void refuse_other_variables() {
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    const std::string_view text = *at;
    const std::size_t equals = text.find('=');
    if (equals == text.npos || equals + 1 == text.size()) continue;
    const std::string name = lower(text.substr(0, equals));
    if (name.find("endpoint") == name.npos) continue;
    const bool aws = name.starts_with("aws_");
    if (!aws && name.find("s3") == name.npos) continue;
    if (aws && is_harmless(name.substr(4))) continue;
    // Those of other services: AWS_ENDPOINT_URL_DYNAMODB.
    if (name.starts_with("aws_endpoint_url_") && name != "aws_endpoint_url_s3") continue;
    refuse_setting(std::string(text.substr(0, equals)), std::string(text.substr(equals + 1)));
  }
}

/// Throws if a key of the profile seems to name S3's endpoint.
void refuse_other_keys() {
  const std::string profile = profile_name();
  for (const std::string& path : aws_files()) {
    if (path.empty()) continue;
    const ProfileFile file = parse_profile_file(small_file(path));
    const auto section = file.find(profile);
    if (section == file.end()) continue;
    for (const auto& [key, value] : section->second) {
      if (key.find("endpoint") == key.npos || value.empty() || is_harmless(key)) continue;
      // Those of other services: "dynamodb.endpoint_url".
      const std::size_t dot = key.find('.');
      if (dot != key.npos && key.substr(0, dot).find("s3") == key.npos) continue;
      refuse_setting(key + " of profile " + profile, value);
    }
  }
}

/// Returns whether a setting is on. Throws if its value is neither true nor false.
bool is_on(const std::string& name, const std::string& value) {
  const std::string said = lower(value);
  if (said == "true") return true;
  if (said.empty() || said == "false") return false;
  throw Error(ErrorCode::invalid_argument, name + " = " + value + " is neither true nor false");
}

/// Returns whether a variable, else a key of the profile, is on, and which of them says so. An
/// empty name of a variable stands for none.
std::pair<bool, std::string> on(const std::string& variable_name, const std::string& key) {
  if (!variable_name.empty())
    if (const std::string value = variable(variable_name.c_str()); !value.empty())
      return {is_on(variable_name, value), variable_name};
  return {is_on(key + " of profile " + profile_name(), of_profile(key)), key};
}

/// Throws if another of Amazon's endpoints for the service, "s3" or "sts", is asked for.
void refuse_other_endpoints(const std::string& service) {
  const bool s3 = service == "s3";
  const std::string region = usual_region();
  const std::string domain = region.starts_with("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
  const std::string dual_stack =
      s3 ? "s3.dualstack." + region + '.' + domain
         : "sts." + region +
               (domain.ends_with(".cn") ? ".api.amazonwebservices.com.cn" : ".api.aws");
  struct Setting {
    std::string variable, key, host;
  };
  std::vector<Setting> settings = {
      {"AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint", service + "-fips." + region + '.' + domain},
      {"AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint", dual_stack}};
  if (s3) {
    settings.push_back({"", "s3.use_dualstack_endpoint", dual_stack});
    settings.push_back({"", "s3.use_accelerate_endpoint", "s3-accelerate.amazonaws.com"});
  }
  for (const Setting& setting : settings)
    if (const auto [is_on, name] = on(setting.variable, setting.key); is_on)
      throw Error(ErrorCode::invalid_argument,
                  name + " = true is not supported: name the endpoint by " +
                      (s3 ? "AWS_ENDPOINT_URL_S3 or --s3-endpoint" : "AWS_ENDPOINT_URL_STS") +
                      ": https://" + setting.host);
}

bool ignores_endpoints() {
  return on("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "ignore_configured_endpoint_urls").first;
}

/// Returns the endpoint of a service in the `services` section that the profile names.
std::string endpoint_of_services(const std::string& service) {
  const std::string services = of_profile("services");
  if (services.empty()) return {};
  if (!is_section("services " + services))
    throw Error(ErrorCode::invalid_argument,
                "profile " + profile_name() + " has services = " + services +
                    ", and there is no section [services " + services + "]");
  return of_section("services " + services, service + ".endpoint_url");
}

}  // namespace

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string without_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == text.npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(kBlanks) - first + 1));
}

std::string small_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(kMostFileBytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, in.gcount())));
  return text;
}

ProfileFile parse_profile_file(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  ProfileParser parser;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    parser.line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parser.take();
}

std::string profile_name() {
  std::string name = variable("AWS_PROFILE");
  const std::string usual = variable("AWS_DEFAULT_PROFILE");
  if (!name.empty() && !usual.empty() && name != usual)
    throw Error(
        ErrorCode::invalid_argument,
        "AWS_PROFILE is " + name + ", and AWS_DEFAULT_PROFILE is " + usual + ": set one of them");
  if (name.empty()) name = usual;
  return name.empty() ? "default" : name;
}

std::string of_profile(const std::string& key) {
  const std::string profile = profile_name();
  std::string value = of_section(profile, key);
  if (!value.empty() || profile == "default" || is_section(profile)) return value;
  const auto [credentials, config] = aws_files();
  throw Error(ErrorCode::invalid_argument, "there is no profile " + profile + " (AWS_PROFILE) in " +
                                               credentials + " or " + config);
}

std::string usual_region() {
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"})
    if (std::string value = variable(name); !value.empty()) return value;
  const std::string value = of_profile("region");
  return value.empty() ? "us-east-1" : value;
}

std::string usual_endpoint(const std::string& service) {
  if (!ignores_endpoints()) {
    const std::string of_service = service == "s3" ? "AWS_ENDPOINT_URL_S3" : "AWS_ENDPOINT_URL_STS";
    for (const std::string& name : {of_service, std::string("AWS_ENDPOINT_URL")})
      if (std::string value = variable(name.c_str()); !value.empty()) return value;
    if (std::string value = endpoint_of_services(service); !value.empty()) return value;
    for (const std::string& key : {service + ".endpoint_url", std::string("endpoint_url")})
      if (std::string value = of_profile(key); !value.empty()) return value;
    if (service == "s3") {
      refuse_other_variables();
      refuse_other_keys();
    }
  }
  refuse_other_endpoints(service);
  return {};
}

std::string usual_ca_file() {
  std::string value = variable("AWS_CA_BUNDLE");
  return value.empty() ? of_profile("ca_bundle") : value;
}

}  // namespace penstock::http
