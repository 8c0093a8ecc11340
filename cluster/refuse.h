// The error for flags and variables that do not describe a job.
#pragma once

#include <string>

#include <penstock/error.h>

namespace penstock::cluster {

/// Throws Error{invalid_argument}.
[[noreturn]] inline void refuse(const std::string& why) {
  throw Error(ErrorCode::invalid_argument, why);
}

/// Throws Error{invalid_argument} whose text begins with `what`.
[[noreturn]] inline void refuse(const std::string& what, const std::string& why) {
  refuse(what + ": " + why);
}

}  // namespace penstock::cluster
