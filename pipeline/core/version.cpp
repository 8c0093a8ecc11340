#include <penstock/version.h>

#include "pipeline/core/build_info.h"

namespace penstock {

std::string version() {
  return kVersion;
}

std::string features() {
  std::string text = kFeatures;
  const auto add = [&text](const char* part, bool there, const char* without) {
    text += std::string("\n") + part + (there ? " yes" : std::string(" no: ") + without);
  };
  add("io_uring", URING_FOUND, "files are read by pread or mmap");
  add("RE2", RE2_FOUND, "classes are taken from folders, not from names by --label-regex");
  add("LZ4", LZ4_FOUND, "input workers do not compress what they send");
  add("libcurl", PENSTOCK_HAVE_REMOTE, "nothing is read from servers");
  add("gRPC", PENSTOCK_HAVE_CLUSTER, "jobs have one process, and no input workers");
  add("toml++", PENSTOCK_BUILD_PIPELINES, "no pipelines as text, and no C interface");
  add("oneDNN", PENSTOCK_BUILD_TOWERS, "no trainer");
  add("ICU", ICU_FOUND, "words of texts are ASCII's");
  add("FarmHash", penstock_towers_with_farmhash, "no hashed feature columns");
  add("CUDA", PENSTOCK_HAVE_CUDA, "devices are the host's");
  return text;
}

}  // namespace penstock
