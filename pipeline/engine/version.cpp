#include <penstock/version.h>

#include "pipeline/engine/build_info.h"

namespace penstock {

std::string version() {
  return kVersion;
}

std::string features() {
  std::string text = kFeatures;
  text += URING_FOUND ? "io_uring yes\n" : "io_uring no\n";
  text += PENSTOCK_HAVE_CUDA ? "CUDA yes\n" : "CUDA no\n";
  return text;
}

}  // namespace penstock
