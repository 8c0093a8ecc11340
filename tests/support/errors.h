// Checks of errors that are thrown.
#pragma once

#include <functional>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/error.h>

namespace penstock::test {

/// Returns the Error that `act` throws; nothing if it throws none.
inline std::optional<Error> thrown_by(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

/// Checks that `act` throws an Error with this code whose text contains `text`.
inline void expect_error(ErrorCode code, const std::string& text,
                         const std::function<void()>& act) {
  const std::optional<Error> error = thrown_by(act);
  ASSERT_TRUE(error) << "nothing was thrown; expected " << name_of(code) << ": " << text;
  EXPECT_EQ(name_of(error->code()), name_of(code)) << error->what();
  EXPECT_THAT(error->what(), testing::HasSubstr(text));
}

}  // namespace penstock::test
