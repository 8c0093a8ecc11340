// The folder of real data that some tests read, and the behaviour of these tests without it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace penstock::test {

/// Returns a path below the folder of real data, $PENSTOCK_DATA. Without that variable the path
/// does not exist.
inline std::string data_path(const std::string& name) {
  const char* folder = std::getenv("PENSTOCK_DATA");
  return std::string(folder != nullptr ? folder : "$PENSTOCK_DATA") + "/" + name;
}

/// True if a test must fail, instead of being skipped, when its data is missing.
inline bool data_required() {
  const char* value = std::getenv("PENSTOCK_REQUIRE_DATA");
  return value != nullptr && std::string(value) == "1";
}

}  // namespace penstock::test

/// Skips the running test if `path` does not exist; fails it if data is required.
#define PENSTOCK_NEED_DATA(path)                                            \
  if (!std::filesystem::exists(path)) {                                     \
    if (::penstock::test::data_required()) FAIL() << path << " is missing"; \
    GTEST_SKIP() << "without " << path << " this is not tested";            \
  }                                                                         \
  static_assert(true)
