// The data that upload_victim writes.
#pragma once

#include <string>

#include "tests/support/files.h"

namespace penstock::test {

/// Returns contents of less than one part up to fourteen parts.
inline std::string upload_of(unsigned number) {
  return noise(1 + number * 997 % 280'000, number);
}
inline std::string state_of(unsigned number) {
  return std::to_string(number) + " " + noise(500, number);
}

}  // namespace penstock::test
