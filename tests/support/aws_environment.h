// An environment without settings for object stores, for tests that make their own.
#pragma once

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/files.h"

extern char** environ;

namespace penstock::test {

/// Unsets the variables of AWS and S3, and sets HOME to an empty folder. The end of the scope puts
/// the environment back. For tests of one thread.
class AwsEnvironment {
 public:
  AwsEnvironment() : saved_(take_all()) {
    if (const char* home = std::getenv("HOME")) saved_.emplace_back("HOME", home);
    set("HOME", home_.path());
    set("AWS_EC2_METADATA_DISABLED", "true");
  }
  AwsEnvironment(const AwsEnvironment&) = delete;
  AwsEnvironment& operator=(const AwsEnvironment&) = delete;
  ~AwsEnvironment() {
    take_all();
    for (const auto& [name, value] : saved_) set(name.c_str(), value);
  }

  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }
  void config(const std::string& text) { home_.write(".aws/config", text); }
  void credentials(const std::string& text) { home_.write(".aws/credentials", text); }

  const TempFolder home_;

 private:
  /// Unsets the variables, and returns them with their values.
  static std::vector<std::pair<std::string, std::string>> take_all() {
    std::vector<std::pair<std::string, std::string>> all;
    for (char** at = environ; *at != nullptr; ++at) {
      const std::string text = *at;
      const std::string name = text.substr(0, text.find('='));
      if (name.starts_with("AWS_") || name.find("S3") != name.npos)
        all.emplace_back(name, text.substr(name.size() + 1));
    }
    for (const auto& [name, value] : all) ::unsetenv(name.c_str());
    return all;
  }

  std::vector<std::pair<std::string, std::string>> saved_;
};

}  // namespace penstock::test
