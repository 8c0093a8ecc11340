#include "tests/support/places.h"

namespace penstock::test {

std::string source_dir() {
  return PENSTOCK_SOURCE_DIR;
}
std::string program_path() {
  return PENSTOCK_PROGRAM;
}

}  // namespace penstock::test
