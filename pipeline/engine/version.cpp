#include <penstock/version.h>

#include "pipeline/engine/build_info.h"

namespace penstock {

std::string version() {
  return kVersion;
}

std::string features() {
  std::string text = kFeatures;
  text += URING_FOUND ? "\nio_uring yes" : "\nio_uring no";
  text += PENSTOCK_HAVE_CUDA ? "\nCUDA yes" : "\nCUDA no";
  return text;
}

}  // namespace penstock
