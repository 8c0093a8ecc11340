// Addresses on the loopback interface for tests.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tests/support/free_port.h"

namespace penstock::test {

/// Returns "127.0.0.1:port" with different ports that were free a moment ago.
inline std::vector<std::string> free_addresses(int count) {
  std::set<int> ports;
  while (static_cast<int>(ports.size()) < count) ports.insert(free_port());
  std::vector<std::string> addresses;
  for (const int port : ports) addresses.push_back("127.0.0.1:" + std::to_string(port));
  return addresses;
}
inline std::string free_address() {
  return free_addresses(1).front();
}

}  // namespace penstock::test
