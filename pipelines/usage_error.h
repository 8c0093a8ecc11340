// An error in the command line or in the TOML file.
#pragma once

#include <exception>
#include <string>
#include <utility>

namespace penstock::tool {

/// A mistake of the user. Ends the program with kUsage and "penstock: <what> (<where>)" on stderr.
class UsageError : public std::exception {
 public:
  explicit UsageError(std::string cause, std::string where = {})
      : cause_(std::move(cause)),
        where_(std::move(where)),
        text_(where_.empty() ? cause_ : cause_ + " (" + where_ + ")") {}

  const std::string& cause() const noexcept { return cause_; }
  /// Returns the flag, or the file, line and path of the field; may be empty.
  const std::string& where() const noexcept { return where_; }
  const char* what() const noexcept override { return text_.c_str(); }

  /// Returns the same error, with this place if it has none yet.
  UsageError at(const std::string& where) const {
    return where_.empty() ? UsageError(cause_, where) : *this;
  }

 private:
  std::string cause_;
  std::string where_;
  std::string text_;
};

}  // namespace penstock::tool
