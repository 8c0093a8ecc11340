#include "tests/support/places.h"

namespace penstock::test {

std::string source_dir() {
  return PENSTOCK_SOURCE_DIR;
}
std::string built(const std::string& name) {
  return PENSTOCK_BINARY_DIR "/" + name;
}
std::string program_path() {
  return built("penstock");
}

}  // namespace penstock::test
