#include "pipeline/io/http/aws_settings.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace penstock::http {
namespace {

constexpr std::size_t kMostFileBytes = 1 << 20;

std::string aws_file(const char* named_by, const char* usual) {
  std::string path = variable(named_by);
  if (path.empty() && !variable("HOME").empty()) path = variable("HOME") + "/.aws/" + usual;
  return path;
}

}  // namespace

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string without_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == text.npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r") - first + 1));
}

std::string small_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(kMostFileBytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, in.gcount())));
  return text;
}

ProfileFile parse_profile_file(std::string_view text) {
  ProfileFile file;
  std::map<std::string, std::string>* section = nullptr;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view raw = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string line = without_blanks(raw);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      std::string name = without_blanks(std::string_view(line).substr(1, line.find(']') - 1));
      if (name.starts_with("profile ")) name = without_blanks(std::string_view(name).substr(8));
      section = &file[name];
      continue;
    }
    const std::size_t equals = line.find('=');
    const bool nested = raw.front() == ' ' || raw.front() == '\t';  // of "s3 =" and the like
    if (section == nullptr || equals == line.npos || nested) continue;
    (*section)[without_blanks(std::string_view(line).substr(0, equals))] =
        without_blanks(std::string_view(line).substr(equals + 1));
  }
  return file;
}

std::string of_profile(const std::string& key) {
  std::string profile = variable("AWS_PROFILE");
  if (profile.empty()) profile = "default";
  for (const std::string& path : {aws_file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
                                  aws_file("AWS_CONFIG_FILE", "config")}) {
    if (path.empty()) continue;
    const ProfileFile file = parse_profile_file(small_file(path));
    const auto section = file.find(profile);
    if (section == file.end()) continue;
    const auto value = section->second.find(key);
    if (value != section->second.end()) return value->second;
  }
  return {};
}

std::string usual_region() {
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"})
    if (std::string value = variable(name); !value.empty()) return value;
  const std::string value = of_profile("region");
  return value.empty() ? "us-east-1" : value;
}

std::string usual_endpoint() {
  for (const char* name : {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"})
    if (std::string value = variable(name); !value.empty()) return value;
  return of_profile("endpoint_url");
}

}  // namespace penstock::http
